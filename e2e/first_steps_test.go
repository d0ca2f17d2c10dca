package e2e

import "testing"

// The first steps, taken one after the other in an empty folder, make what the page says at each. They begin with the
// program of the README.
func TestFirstSteps(t *testing.T) {
	g := followGuide(t, "../README.md", "../docs/first-steps.md")

	g.run() // TestProgramOfTheReadme looks at it

	s := g.run() // with a login
	ann, bob := openTab(t, s.url()+"?name=Ann", "Ann"), openTab(t, s.url()+"?name=Bob", "Bob")
	for _, tb := range []*tab{ann, bob} {
		tb.until("connected", mayType)
	}
	ann.sends("Hello Bob")
	bob.until("Ann's name and message", shows("Ann: Hello Bob"))

	g.run() // with a list of the people; all tokens are forgotten
	ann.until("connected again", shows("waiting: UNAUTHENTICATED")+" && "+mayType)
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
