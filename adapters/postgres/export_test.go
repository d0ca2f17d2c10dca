package postgres

import (
	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/limit"
)

// LimitsAt are the limits of a backend with the clock of a test.
func LimitsAt(b adapters.Backend, now func() int64) limit.Store {
	return newStore(b.Limits.(*store).database, now)
}
