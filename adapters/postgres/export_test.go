package postgres

import (
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/limit"
)

// LimitsAt are the limits of a backend with the clock of a test.
func LimitsAt(b adapters.Backend, now func() time.Time) limit.Store {
	return newStore(b.Limits.(*store).database, now)
}
