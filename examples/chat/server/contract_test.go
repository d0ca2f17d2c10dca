package server

import (
	"testing"

	"github.com/wskit/wskit/internal/exampletest"
)

func TestContractOfThePageIsCurrent(t *testing.T) {
	c, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check("static/contract.d.ts"); err != nil {
		t.Error(err)
	}
}

// What the page sends and reads is what the server reads and sends.
func TestPageKeepsTheContract(t *testing.T) {
	exampletest.CheckTypes(t)
}
