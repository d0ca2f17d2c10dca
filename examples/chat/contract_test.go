package main

import "testing"

func TestContractOfThePageIsCurrent(t *testing.T) {
	c, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check("static/contract.d.ts"); err != nil {
		t.Error(err)
	}
}
