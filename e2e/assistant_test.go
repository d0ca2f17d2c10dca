package e2e

import (
	"fmt"
	"testing"

	"github.com/wskit/wskit/internal/redistest"
)

// device is a tab with the assistant in it. Tabs with one token are devices of one user.
type device struct{ *tab }

func openDevice(t *testing.T, s *server, name, token string) device {
	t.Helper()
	d := device{openTab(t, s.url()+"#"+token, name)}
	d.until("connected", `document.getElementById("connection").dataset.state === "open"`)
	return d
}

// ask asks a question, or says more while an answer is written.
func (d device) ask(text string) {
	d.t.Helper()
	d.write(text)
	d.enter()
	d.until("it is sent", `document.getElementById("text").value === ""`)
}

// last is an expression about the last answer.
func last(expression string) string {
	return `((a) => a && (` + expression + `))(document.querySelector("#answers article:last-child"))`
}

func (d device) ends(state string) {
	d.t.Helper()
	d.until("the answer is "+state, last(`a.dataset.state === `+js(state)))
}

func (d device) shown() string {
	return eval[string](d.tab, `document.getElementById("answers").innerText`)
}

const asks = `!a.querySelector(".question").hidden`

// A user with two devices on two servers: an answer goes on while one reloads and while its server is gone, is steered,
// asks, is stopped, and is paid; an answer of a server that is killed is lost, and both devices say so.
func TestAssistantOnTwoDevices(t *testing.T) {
	nightly(t)
	redis := redistest.Start(t).URL()
	a, b := startExample(t, "assistant", "-redis", redis), startExample(t, "assistant", "-redis", redis)
	const token = "a-random-token-of-ann"
	phone, desk := openDevice(t, a, "phone", token), openDevice(t, b, "desk", token)
	same := func() {
		t.Helper()
		if p, d := phone.shown(), desk.shown(); p != d {
			t.Errorf("the phone shows\n%s\nand the desk\n%s", p, d)
		}
	}

	desk.ask("Why do ships come home?")
	phone.until("the answer is written", last(`a.querySelector(".text").innerText.includes("lighthouse")`))
	phone.reload()
	phone.until("the answer is written on", last(`a.querySelector(".text").innerText.includes("The sea was loud")`))
	a.crash()
	phone.until("it is offline", `document.getElementById("connection").dataset.state === "waiting"`)
	desk.until("the user is asked", last(asks))
	a.start()
	phone.until("the user is asked", last(asks))
	same()
	eval[any](phone.tab, `void document.querySelector("#answers article:last-child .question .primary").click()`)
	desk.until("the question is answered", last("!("+asks+")"))
	desk.until("the answer goes on", last(`a.querySelector(".text").innerText.includes("In the morning")`))
	phone.ask("shorter")
	for _, d := range []device{phone, desk} {
		d.until("the end is short", last(`a.querySelector(".text").innerText.endsWith("every ship came home.")`))
		d.ends("done")
	}
	same()
	desk.until("the words are paid", fmt.Sprintf(`document.getElementById("left").value < 2000 - %d`, 120))
	paid := eval[int](desk.tab, `document.getElementById("left").value`)

	desk.ask("And why do they leave?")
	phone.until("the answer is written", last(`a.dataset.state === "running" && a.querySelector(".text").innerText.includes("lighthouse")`))
	phone.click("stop")
	for _, d := range []device{phone, desk} {
		d.ends("stopped")
	}
	same()
	desk.until("what was not used is given back", fmt.Sprintf(`document.getElementById("left").value > %d - 50`, paid))

	desk.ask("What becomes of this one?")
	phone.until("the answer is written", last(`a.dataset.state === "running" && a.querySelector(".text").innerText.includes("lighthouse")`))
	b.crash()
	phone.ends("lost")
	b.start()
	desk.ends("lost")
	same()
	phone.ask("Is it still there?")
	phone.until("another answer is written", last(`a.dataset.state === "running" && a.querySelector(".text").innerText.length > 20`))
	phone.click("stop")
	phone.ends("stopped")
}

// The page on a phone and on a desktop, for eyes.
func TestPicturesOfTheAssistant(t *testing.T) {
	nightly(t)
	s := startExample(t, "assistant")
	for _, scheme := range []string{"light", "dark"} {
		for name, size := range map[string][2]int64{"desktop": {1080, 720}, "phone": {390, 844}} {
			d := openDevice(t, s, name, "a-random-token-"+name+scheme)
			d.emulate(size[0], size[1], name == "phone", scheme)
			d.shoot("assistant-0-" + name + "-" + scheme)
			d.ask("Why do ships come home?")
			d.until("the user is asked", last(asks))
			d.shoot("assistant-1-" + name + "-" + scheme)
			d.write("shorter")
			d.enter()
			d.until("it is to be answered first", `document.getElementById("notice").textContent !== ""`)
			eval[any](d.tab, `void document.querySelector("#answers article:last-child .question .primary").click()`)
			d.until("the question is answered", last("!("+asks+")"))
			d.enter()
			d.ends("done")
			d.shoot("assistant-2-" + name + "-" + scheme)
		}
	}
}
