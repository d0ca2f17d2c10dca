package wire

import (
	"testing"

	"github.com/wskit/wskit/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m, hangGuard) }
