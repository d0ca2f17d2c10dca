package exampletest

import "testing"

// CheckContract compares the types of the page in the folder static with what describe returns of its server.
func CheckContract[C interface{ Check(file string) error }](t *testing.T, describe func() (C, error)) {
	t.Helper()
	c, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check("static/contract.d.ts"); err != nil {
		t.Error(err)
	}
}
