package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/wskit/wskit/internal/redistest"
)

// boardTab is a tab with a drawing board.
type boardTab struct{ *tab }

// openBoard opens a board in a tab.
func openBoard(t *testing.T, s *server, name string) boardTab {
	t.Helper()
	b := boardTab{openTab(t, s.url(), name)}
	b.joined()
	b.do(chromedp.SetValue(chromedp.ID("name"), name))
	eval[any](b.tab, `void document.getElementById("name").dispatchEvent(new Event("change"))`)
	b.until("the board has the name", `board.people.name(board.people.me) === `+js(name))
	return b
}

const boardJoined = `globalThis.board?.client.state.get().status === "open" && board.people.me !== "" && board.people.name(board.people.me) !== ""`

func (b boardTab) joined() {
	b.t.Helper()
	b.until("the board is joined", boardJoined)
}

// mouse moves the mouse, with its button as it is said, to a place on the sheet in parts of its width and height.
func (b boardTab) mouse(event input.DispatchMouseEventType, x, y float64) {
	b.t.Helper()
	at := eval[[]float64](b.tab, fmt.Sprintf(`(() => { const r = document.getElementById("live").getBoundingClientRect();
		return [r.left + r.width * %g, r.top + r.height * %g]; })()`, x, y))
	b.call(func(ctx context.Context) error {
		p := input.DispatchMouseEventParams{Type: event, X: at[0], Y: at[1], Button: input.MouseButtonLeft, ClickCount: 1, Buttons: 1}
		if event == input.DispatchMouseEventTypeMouseReleased {
			p.Buttons = 0
		}
		_, err := chromedp.Call(ctx, input.DispatchMouseEvent, p)
		return err
	})
}

// draws draws a line through places on the sheet, x and y of each.
func (b boardTab) draws(places ...float64) {
	b.t.Helper()
	b.mouse(input.DispatchMouseEventTypeMousePressed, places[0], places[1])
	for i := 2; i < len(places); i += 2 {
		b.mouse(input.DispatchMouseEventTypeMouseMoved, places[i], places[i+1])
	}
	b.mouse(input.DispatchMouseEventTypeMouseReleased, places[len(places)-2], places[len(places)-1])
}

// strokes is the drawing that the page shows, once nothing of it is on its way.
func (b boardTab) strokes() string {
	b.t.Helper()
	b.until("nothing is pending", `board.drawing.pending === 0`)
	return eval[string](b.tab, `JSON.stringify(board.drawing.strokes.map(({ by, id, points }) => [by, id, points]))`)
}

// show waits until all boards have so many strokes, and checks that they have the same ones.
func show(t *testing.T, n int, boards ...boardTab) {
	t.Helper()
	for _, b := range boards {
		b.until(fmt.Sprint(n, " strokes"), fmt.Sprintf(`board.drawing.size === %d`, n))
	}
	want := boards[0].strokes()
	for _, b := range boards[1:] {
		if got := b.strokes(); got != want {
			t.Errorf("%s has another drawing than %s:\n%s\n%s", b.name, boards[0].name, got, want)
		}
	}
}

const isPainted = `["drawing", "live"].some((id) => {
	const canvas = document.getElementById(id);
	const part = new OffscreenCanvas(4, 4).getContext("2d", { willReadFrequently: true });
	part.drawImage(canvas, %g * canvas.width - 2, %g * canvas.height - 2, 4, 4, 0, 0, 4, 4);
	return part.getImageData(0, 0, 4, 4).data.some((v) => v > 0);
})`

// painted reports whether pixels of the sheet around a place are not empty.
func (b boardTab) painted(x, y float64) bool {
	b.t.Helper()
	return eval[bool](b.tab, fmt.Sprintf(isPainted, x, y))
}

// Three pages draw on one board while servers are killed. One of them sleeps, one comes late. All have the same drawing
// in the end, with each stroke once.
func TestBoard(t *testing.T) {
	nightly(t)
	redis := redistest.Start(t)
	start := func() *server {
		needBrowser(t)
		return startServer(t, "127.0.0.1:0", func(addr string) *exec.Cmd {
			return exec.Command(exampleDir+"/board", "-addr", addr, "-redis", redis.URL())
		})
	}
	one, two := start(), start()
	ada, bob := openBoard(t, one, "Ada"), openBoard(t, two, "Bob")
	ada.until("both are here", `document.querySelectorAll("#people li").length === 2`)

	ada.draws(0.2, 0.2, 0.4, 0.25, 0.5, 0.4)
	bob.draws(0.7, 0.7, 0.6, 0.8)
	show(t, 2, ada, bob)
	bob.until("a stroke is where it was drawn", fmt.Sprintf(isPainted, 0.2, 0.2)) // some frames later
	if bob.painted(0.9, 0.1) {
		t.Error("there is a stroke where none was drawn")
	}

	// A cursor and a line that is being drawn are shown before it is finished.
	ada.mouse(input.DispatchMouseEventTypeMousePressed, 0.1, 0.9)
	ada.mouse(input.DispatchMouseEventTypeMouseMoved, 0.2, 0.9)
	bob.until("the cursor of Ada is shown", `document.querySelector("#cursors span")?.textContent === "Ada"`)
	bob.until("the line is shown while it is drawn", fmt.Sprintf(isPainted, 0.15, 0.9))
	ada.mouse(input.DispatchMouseEventTypeMouseReleased, 0.2, 0.9)
	show(t, 3, ada, bob)

	// Bob sleeps, its server is killed, Ada draws, and Eve comes late.
	bob.freeze(page.SetWebLifecycleStateStateFrozen)
	two.crash()
	for i := range 10 {
		ada.draws(0.1+float64(i)/15, 0.5, 0.12+float64(i)/15, 0.6)
	}
	two.start()
	eve := openBoard(t, one, "Eve")
	show(t, 13, ada, eve)
	// Meanwhile Ada's server is killed too: what she draws then arrives when it is back.
	one.crash()
	ada.until("the page has noticed", `board.client.state.get().status !== "open"`)
	ada.draws(0.3, 0.95, 0.5, 0.95)
	eve.draws(0.6, 0.95, 0.7, 0.95)
	one.start()
	ada.joined()
	eve.joined()
	bob.freeze(page.SetWebLifecycleStateStateActive)
	show(t, 15, ada, eve, bob)

	ada.click("undo")
	show(t, 14, ada, eve, bob)
	reloaded := ada.strokes()
	ada.reload()
	ada.joined()
	show(t, 14, ada, eve, bob)
	if got := ada.strokes(); got != reloaded {
		t.Errorf("after reloading the drawing is\n%s\nand was\n%s", got, reloaded)
	}
}

// The others are asked before a board is cleared: one that refuses keeps it.
func TestBoardIsCleared(t *testing.T) {
	nightly(t)
	s := startExample(t, "board")
	ada, bob, eve := openBoard(t, s, "Ada"), openBoard(t, s, "Bob"), openBoard(t, s, "Eve")
	ada.draws(0.2, 0.2, 0.5, 0.5)
	show(t, 1, ada, bob, eve)
	answer := func(b boardTab, value string) {
		t.Helper()
		b.until("the page asks", `document.getElementById("ask").open && document.getElementById("ask-title").textContent === "Ada wants to clear the board."`)
		eval[any](b.tab, `document.querySelector("#ask button[value=`+value+`]").click()`)
	}
	ada.click("clear")
	answer(bob, "no")
	ada.until("Ada gets the refusal", `document.getElementById("note").textContent === "Bob wants to keep the drawing."`)
	eve.until("the question is withdrawn", `!document.getElementById("ask").open`)
	show(t, 1, ada, bob, eve)

	ada.click("clear")
	answer(bob, "yes")
	answer(eve, "yes")
	show(t, 0, ada, bob, eve)
	ada.draws(0.3, 0.3, 0.4, 0.4)
	show(t, 1, ada, bob, eve, openBoard(t, s, "Ann"))
}

// A hand that draws faster than the limit waits; nothing of the drawing is lost, and its order stays.
func TestBoardLimits(t *testing.T) {
	nightly(t)
	s := startExample(t, "board")
	ada, bob := openBoard(t, s, "Ada"), openBoard(t, s, "Bob")
	begun := time.Now()
	eval[any](ada.tab, `void (async () => {
		const live = document.getElementById("live"), { left, top, width } = live.getBoundingClientRect();
		live.setPointerCapture = () => {};
		for (let i = 0; i < 60; i++) {
			const event = (type) => live.dispatchEvent(new PointerEvent(type, { clientX: left + width * i / 60, clientY: top + 50, isPrimary: true, button: 0 }));
			event("pointerdown");
			event("pointerup");
		}
	})()`)
	show(t, 60, ada, bob)
	if took := since(begun); took < 3*time.Second {
		t.Errorf("60 strokes took %v: the limit of 30 and 6 a second was not in force", took)
	}
	xs := eval[[]float64](bob.tab, `board.drawing.strokes.map(({ points }) => points[0])`)
	for i := 1; i < len(xs); i++ {
		if xs[i] < xs[i-1] {
			t.Fatalf("the strokes are out of order: %v", xs)
		}
	}
}

// TestBoardScreenshots leaves pictures for a person to look at.
func TestBoardScreenshots(t *testing.T) {
	nightly(t)
	for _, size := range []struct {
		name          string
		width, height int64
		phone         bool
	}{{"desktop", 1280, 800, false}, {"phone", 390, 844, true}, {"landscape", 844, 390, true}} {
		for _, scheme := range []string{"light", "dark"} {
			if size.name == "landscape" && scheme == "light" {
				continue
			}
			t.Run(size.name+"-"+scheme, func(t *testing.T) {
				s := startExample(t, "board")
				bob := openBoard(t, s, "Bob")
				ada := openBoard(t, s, "Ada Lovelace")
				ada.emulate(size.width, size.height, size.phone, scheme)
				shoot := func(what string) { ada.shoot("board-" + what + "-" + size.name + "-" + scheme) }
				shoot("0-empty")
				for i := range 8 {
					eval[any](bob.tab, fmt.Sprintf(`document.querySelectorAll("#palette button")[%d].click()`, i))
					eval[any](bob.tab, fmt.Sprintf(`document.querySelectorAll("#widths button")[%d].click()`, i%3))
					y := 0.15 + 0.09*float64(i)
					bob.draws(0.15, y, 0.3, y-0.06, 0.45, y+0.02, 0.6, y-0.05, 0.8, y)
				}
				ada.until("8 strokes", `board.drawing.size === 8`)
				bob.mouse(input.DispatchMouseEventTypeMouseMoved, 0.7, 0.5)
				ada.until("a cursor", `document.querySelector("#cursors span") !== null`)
				shoot("1-drawn")
				for _, overflowing := range eval[[]string](ada.tab, `[...document.querySelectorAll("body *")].filter((e) => {
					const r = e.getBoundingClientRect();
					return (r.left < -1 || r.right > innerWidth + 1 || r.bottom > innerHeight + 1) && e.checkVisibility() && !e.closest("#cursors, .tools");
				}).map((e) => e.id || e.className || e.tagName)`) {
					t.Errorf("%s is cut off", overflowing)
				}
				bob.click("clear")
				ada.until("the page asks", `document.getElementById("ask").open`)
				shoot("2-asked")
				s.stop()
				ada.until("the page waits", `board.client.state.get().status !== "open"`)
				eval[any](ada.tab, `document.getElementById("ask").close("no")`)
				shoot("3-waiting")
			})
		}
	}
}
