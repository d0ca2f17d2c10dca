package e2e

import (
	"os"
	"testing"
)

// The first steps, taken one after the other in an empty folder, make what the page says at each.
func TestFirstSteps(t *testing.T) {
	g := followGuide(t, "../docs/first-steps.md")

	// The server and its page are those of the README.
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, s := range stepsOf(t, string(readme)) {
		files[s.file] = s.new
	}
	for _, s := range g.steps {
		if want := files[s.file]; s.file != "" && want != "" && s.new != want {
			t.Fatalf("%s of the first steps is not that of the README", s.file)
		}
		delete(files, s.file)
	}

	g.run() // TestProgramOfTheReadme looks at it

	s := g.run() // with a login
	ann, bob := openTab(t, s.url()+"?name=Ann", "Ann"), openTab(t, s.url()+"?name=Bob", "Bob")
	for _, tb := range []*tab{ann, bob} {
		tb.until("connected", mayType)
	}
	ann.sends("Hello Bob")
	bob.until("Ann's name and message", shows("Ann: Hello Bob"))

	g.run() // with a list of the people; all tokens are forgotten
	ann.until("connected again", shows("(waiting: UNAUTHENTICATED)")+" && "+mayType)
	refused := "refused: identity, UNAUTHENTICATED: log in first"
	g.server.says(refused)
	ann.sends("I am back")
	ann.until("connected with another token", shows("Ann: I am back"))
	for _, tb := range []*tab{ann, bob} {
		tb.reload()
		tb.until("both names", shows("Here: Ann, Bob"))
	}
	bob.close()
	ann.until("Bob is gone", `document.querySelector("p").textContent === "Here: Ann"`)

	g.finish() // a test of the program
}
