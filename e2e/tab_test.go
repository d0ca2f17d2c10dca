package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	browserdomain "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/wskit/wskit/internal/poll"
)

// tab is one browser tab with the chat in it: one person.
type tab struct {
	t    *testing.T
	name string
	ctx  context.Context
	// close closes the tab.
	close context.CancelFunc

	mu       sync.Mutex
	problems []string // what the browser complained about
}

// openTab opens a tab that shares nothing with any other: no storage, no cookies.
func openTab(t *testing.T, url, name string) *tab {
	t.Helper()
	needBrowser(t)
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	tb := &tab{t: t, name: name, ctx: ctx, close: cancel}
	tb.do(chromedp.Steps()) // the tab belongs to ctx, not to the limit of one step
	messages := chromedp.Console(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for m, err := range messages {
			if err != nil {
				return
			}
			tb.complain(m)
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			tb.showFailure()
		}
		cancel()
		<-watched
		tb.mu.Lock()
		defer tb.mu.Unlock()
		for _, p := range tb.problems {
			t.Errorf("%s: the browser says: %s", name, p)
		}
	})
	tb.call(func(ctx context.Context) error {
		// Every tab behaves as the one that is looked at: no slowed timers.
		_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	})
	tb.do(chromedp.Navigate(url))
	return tb
}

// showFailure logs the text of the page and writes a picture of it. It works for a page that does not answer as well.
func (tb *tab) showFailure() {
	ctx, cancel := context.WithTimeout(tb.ctx, poll.Guard)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	tb.t.Logf("the page of %s says:\n%s", tb.name, text)
	if picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot()); err == nil {
		name := filepath.Join("screenshots", "failed-"+strings.ReplaceAll(tb.t.Name(), "/", "-")+"-"+tb.name+".png")
		_ = os.MkdirAll("screenshots", 0o755)
		_ = os.WriteFile(name, picture, 0o644)
		tb.t.Logf("a picture of it: e2e/%s", name)
	}
}

// enter opens a tab and joins under the name.
func enter(t *testing.T, s *server, name string) *tab {
	t.Helper()
	tb := openTab(t, s.url(), name)
	tb.join()
	return tb
}

func (tb *tab) join() {
	tb.t.Helper()
	tb.until("the name is asked for", `document.getElementById("welcome").open`)
	tb.do(chromedp.SetValue(chromedp.ID("name"), tb.name))
	tb.click("join")
	tb.connected()
}

func (tb *tab) connected() {
	tb.t.Helper()
	tb.until("connected and in a room", `document.getElementById("connection").dataset.state === "open" &&
		document.getElementById("room-title").textContent.startsWith("# ") &&
		document.getElementById("composer").dataset.state !== "offline"`)
}

// complain keeps what is wrong with the page. That a server which is down
// cannot be reached is what those tests are about.
func (tb *tab) complain(m chromedp.ConsoleMessage) {
	if m.Type != chromedp.ConsoleException && m.Type != "error" && m.Type != "warning" {
		return
	}
	if strings.Contains(m.Text, "WebSocket") && (strings.Contains(m.Text, "failed") || strings.Contains(m.Text, "closed")) {
		return
	}
	if strings.Contains(m.Text, "net::ERR_CONNECTION_REFUSED") || strings.Contains(m.Text, "status of 401") {
		return
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.problems = append(tb.problems, m.Text)
}

func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	tb.call(func(ctx context.Context) error { return chromedp.Do(ctx, steps...) })
}

func (tb *tab) call(f func(context.Context) error) {
	tb.t.Helper()
	ctx, cancel := tb.ctx, context.CancelFunc(func() {})
	if chromedp.FromContext(ctx).Target != nil {
		ctx, cancel = context.WithTimeout(ctx, poll.Guard)
	}
	defer cancel()
	if err := f(ctx); err != nil {
		tb.t.Fatalf("%s: %v", tb.name, err)
	}
}

// eval returns the value of a JavaScript expression.
func eval[T any](tb *tab, expression string) T {
	tb.t.Helper()
	var value T
	tb.call(func(ctx context.Context) (err error) {
		value, err = chromedp.Run(ctx, chromedp.Evaluate[T](expression))
		return err
	})
	return value
}

// until waits until the JavaScript condition holds.
func (tb *tab) until(what, condition string) {
	tb.t.Helper()
	poll.Until(tb.t, tb.name+": "+what, func() bool { return eval[bool](tb, "!!("+condition+")") })
}

// write puts text into the message box, at once, as a paste does.
func (tb *tab) write(text string) {
	tb.t.Helper()
	tb.focus("text")
	tb.call(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
}

// enter presses the Enter key. One event with a text stands for the key and the
// character it makes, as with a keyboard: where a page prevents the one, the
// other does not come either. With chromedp.KeyEvent it would.
func (tb *tab) enter() {
	tb.t.Helper()
	tb.call(func(ctx context.Context) error {
		key := input.DispatchKeyEventParams{
			Type: input.DispatchKeyEventTypeKeyDown, Key: "Enter", Code: "Enter", Text: "\r",
			WindowsVirtualKeyCode: 13, NativeVirtualKeyCode: 13,
		}
		if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, key); err != nil {
			return err
		}
		key.Type, key.Text = input.DispatchKeyEventTypeKeyUp, ""
		_, err := chromedp.Call(ctx, input.DispatchKeyEvent, key)
		return err
	})
}

func (tb *tab) press(key string) {
	tb.t.Helper()
	tb.do(chromedp.KeyEvent(key))
}

// say writes a message, sends it and waits until the server has taken it.
func (tb *tab) say(text string) {
	tb.t.Helper()
	tb.write(text)
	tb.enter()
	tb.sees(text)
	tb.until("the box is empty", `document.getElementById("text").value === ""`)
}

// sees waits for a message of this text.
func (tb *tab) sees(text string) {
	tb.t.Helper()
	tb.until(fmt.Sprintf("a message %q", text), tb.bodies()+`.includes(`+js(text)+`)`)
}

func (tb *tab) bodies() string {
	return `[...document.querySelectorAll("#messages .body")].map((e) => e.textContent)`
}

// people waits until exactly these are listed, whatever their order.
func (tb *tab) people(names ...string) {
	tb.t.Helper()
	tb.until("the people here are "+strings.Join(names, ", "),
		`JSON.stringify([...document.querySelectorAll("#people .name")].map((e) => e.textContent).sort()) === JSON.stringify(`+js(names)+`.sort())`)
}

// notes waits for a line such as "Ada left".
func (tb *tab) notes(line string) {
	tb.t.Helper()
	tb.until("the note "+line, `[...document.querySelectorAll("#messages .note")].some((e) => e.textContent === `+js(line)+`)`)
}

// gaps waits until there are so many lines that say that messages may be missing.
func (tb *tab) gaps(n int) {
	tb.t.Helper()
	tb.until(fmt.Sprint(n, " lines about missing messages"), fmt.Sprintf(`document.querySelectorAll("#messages .gap").length === %d`, n))
}

// box returns what is in the message box.
func (tb *tab) box() string {
	tb.t.Helper()
	return eval[string](tb, `document.getElementById("text").value`)
}

// click presses the middle of an element when nothing else is there any more: parts of a page may still slide away.
func (tb *tab) click(id string) {
	tb.t.Helper()
	tb.until(id+" can be pressed", fmt.Sprintf(`(() => {
		const e = document.getElementById(%q);
		e.scrollIntoView({ block: "nearest" });
		const r = e.getBoundingClientRect();
		return e.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2));
	})()`, id))
	tb.do(chromedp.Click(chromedp.ID(id)))
}

// keys presses keys into whatever has the focus.
func (tb *tab) keys(text string) {
	tb.t.Helper()
	tb.do(chromedp.KeyEvent(text))
}

func (tb *tab) focus(id string) {
	tb.t.Helper()
	tb.do(chromedp.Focus(chromedp.ID(id)))
}

func (tb *tab) reload() {
	tb.t.Helper()
	tb.do(chromedp.Reload())
}

func (tb *tab) resize(width, height int64) {
	tb.t.Helper()
	tb.do(chromedp.EmulateViewport(width, height))
}

// emulate makes the tab a window or a phone of this size and colour scheme.
func (tb *tab) emulate(width, height int64, phone bool, scheme string) {
	tb.t.Helper()
	if phone {
		tb.do(chromedp.EmulateViewport(width, height, chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch))
	} else {
		tb.resize(width, height)
	}
	tb.call(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// freeze stops all that runs in the page, or lets it run again. Only a hidden page can be frozen.
func (tb *tab) freeze(state page.SetWebLifecycleStateState) {
	tb.t.Helper()
	if state == page.SetWebLifecycleStateStateFrozen {
		tb.minimize()
		tb.until("the page is hidden", `document.visibilityState === "hidden"`)
	}
	tb.call(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: state})
		return err
	})
}

// minimize minimizes the window of the page, which hides the page.
func (tb *tab) minimize() {
	tb.t.Helper()
	tb.call(func(ctx context.Context) error {
		if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{}); err != nil {
			return err
		}
		w, err := chromedp.CallBrowser(ctx, browserdomain.GetWindowForTarget, browserdomain.GetWindowForTargetParams{
			TargetID: chromedp.FromContext(ctx).Target.TargetID,
		})
		if err != nil {
			return err
		}
		_, err = chromedp.CallBrowser(ctx, browserdomain.SetWindowBounds, browserdomain.SetWindowBoundsParams{
			WindowID: w.WindowID, Bounds: &browserdomain.Bounds{WindowState: browserdomain.WindowStateMinimized},
		})
		return err
	})
}

// shoot writes a picture of what the tab shows.
func (tb *tab) shoot(name string) {
	tb.t.Helper()
	if err := os.MkdirAll("screenshots", 0o755); err != nil {
		tb.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("screenshots", name+".png"), tb.capture(), 0o644); err != nil {
		tb.t.Fatal(err)
	}
}

// capture is a picture of what the tab shows, a PNG.
func (tb *tab) capture() (picture []byte) {
	tb.t.Helper()
	tb.call(func(ctx context.Context) (err error) {
		picture, err = chromedp.Run(ctx, chromedp.CaptureScreenshot())
		return err
	})
	return picture
}

// js returns v as a JavaScript literal.
func js(v any) string {
	literal, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(literal)
}
