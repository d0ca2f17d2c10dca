package server

import (
	"testing"

	"github.com/wskit/wskit/internal/exampletest"
)

func TestContractOfThePageIsCurrent(t *testing.T) {
	exampletest.CheckContract(t, describe)
}

// What the page sends and reads is what the server reads and sends.
func TestPageKeepsTheContract(t *testing.T) {
	exampletest.CheckTypes(t)
}
