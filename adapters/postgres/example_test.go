package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Paid is an event of the page.
type Paid struct {
	ID string `json:"id"`
}

// newRouter is the first code of docs/postgres.md.
func newRouter(ctx context.Context) (*router.Router, *postgres.Broker, error) {
	backend, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return nil, nil, err
	}
	r := router.New(router.Options{Backend: backend})
	r.History("orders:*")
	return r, backend.Broker.(*postgres.Broker), nil
}

// pay is the second.
func pay(ctx context.Context, pool *pgxpool.Pool, broker *postgres.Broker, id string) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "update orders set paid = true where id = $1", id); err != nil {
			return err
		}
		return broker.AppendTx(ctx, tx, "orders:"+id, "order.paid", Paid{ID: id}, "paid-"+id)
	})
	return err
}

// The code of docs/postgres.md, and its SQL.
func TestPage(t *testing.T) {
	s := pgtest.Start(t)
	t.Setenv("DATABASE_URL", s.URL())
	s.Do("create table orders (id text, paid bool)")
	s.Do("insert into orders values ('7')")
	r, broker, err := newRouter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Backend().Close() })
	router.RPC(r, "join", func(c *router.Context, topic string) (bool, error) { return true, c.Subscribe(topic) })
	c := routertest.New(t, r).Dial()
	routertest.ExpectReply[bool](c.Request("join", "orders:7"))
	pool, err := pgxpool.New(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if onRedis := memory.New(); withLimitsOnRedis(r.Backend(), onRedis).Limits != onRedis.Limits {
		t.Error("the limits are not those of the other backend")
	}
	for range 2 { // the second is the same event
		if err := pay(t.Context(), pool, broker, "7"); err != nil {
			t.Fatal(err)
		}
	}
	s.Do(`select wskit.publish('orders:7', 'order.paid', '{"id": "by SQL"}')`)
	for _, want := range []string{"7", "by SQL"} {
		if got := routertest.ExpectEvent[Paid](c, "order.paid"); got.ID != want {
			t.Errorf("the event is %+v, want %s", got, want)
		}
	}
}

// withLimitsOnRedis is the third: a backend of two.
func withLimitsOnRedis(backend, onRedis adapters.Backend) adapters.Backend {
	backend.Limits = onRedis.Limits
	return backend
}
