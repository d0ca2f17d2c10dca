package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

func ExampleRouteOptions() {
	type Joined struct {
		Room string `json:"room"`
	}
	r := router.New()
	router.RPC(r, "room.join", func(*router.Context, struct{}) (Joined, error) {
		return Joined{"lobby"}, nil
	}, router.RouteOptions{Reply: "room.joined"})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"room.join","meta":{"correlationId":"1"}}`)
	c.receive(1)
	// Output:
	// {"type":"room.joined","meta":{"correlationId":"1"},"payload":{"room":"lobby"}}
}

// A report takes its time; what the same client asks meanwhile is answered.
func ExampleRouteOptions_concurrent() {
	written := make(chan struct{})
	r := router.New()
	router.RPC(r, "report", func(c *router.Context, _ struct{}) (string, error) {
		select {
		case <-written:
			return "done", nil
		case <-c.Done():
			return "", c.Err()
		}
	}, router.RouteOptions{Concurrent: true})
	router.RPC(r, "time", func(*router.Context, struct{}) (string, error) { return "noon", nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"report","meta":{"correlationId":"1"}}`)
	c.send(`{"type":"time","meta":{"correlationId":"2"}}`)
	c.receive(1)
	close(written)
	c.receive(1)
	// Output:
	// {"type":"time.reply","meta":{"correlationId":"2"},"payload":"noon"}
	// {"type":"report.reply","meta":{"correlationId":"1"},"payload":"done"}
}

func ExampleRouteOptions_timeout() {
	r := router.New()
	router.RPC(r, "search", func(c *router.Context, _ struct{}) (string, error) {
		<-c.Done() // a query that takes c gives up when its time is over
		return "", c.Err()
	}, router.RouteOptions{Timeout: 10 * time.Millisecond})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"search","meta":{"correlationId":"1"}}`)
	c.receive(1)
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"DEADLINE_EXCEEDED","message":"deadline exceeded","retryable":true}}
}

func ExampleGroup_UseHandler() {
	adminOnly := func(next router.Handler) router.Handler {
		return func(c *router.Context) error {
			if c.Identity.Tier != "admin" {
				return errors.PermissionDenied.New("only for admins")
			}
			return next(c)
		}
	}
	r := router.New()
	rooms := r.Group("room.")
	rooms.UseHandler(adminOnly)
	router.RPC(rooms, "delete", func(*router.Context, struct{}) (string, error) { return "deleted", nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"room.delete","meta":{"correlationId":"1"}}`)
	c.receive(1)
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"PERMISSION_DENIED","message":"only for admins","retryable":false}}
}

// What is turned away here has not been decoded.
func ExampleRouter_Use() {
	readOnly := func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			if !c.Identity.Authenticated() && strings.HasPrefix(c.Type, "chat.") {
				return errors.Unauthenticated.New("log in to write")
			}
			return next(c)
		}
	}
	r := router.New()
	r.Use(readOnly)
	router.On(r, "chat.send", func(*router.Context, string) error { return nil })
	router.RPC(r, "room.list", func(*router.Context, struct{}) ([]string, error) { return []string{"lobby"}, nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","payload":"hi"}`)
	c.send(`{"type":"room.list","meta":{"correlationId":"1"}}`)
	c.receive(2)
	// Output:
	// {"type":"ERROR","payload":{"type":"chat.send","code":"UNAUTHENTICATED","message":"log in to write","retryable":false}}
	// {"type":"room.list.reply","meta":{"correlationId":"1"},"payload":["lobby"]}
}

func ExampleRouter_UseHandler() {
	type Say struct {
		Text string `json:"text"`
	}
	r := router.New()
	r.UseHandler(func(next router.Handler) router.Handler {
		return func(c *router.Context) error {
			if m, ok := c.Message().(*Say); ok {
				m.Text = strings.TrimSpace(m.Text)
			}
			err := next(c)
			fmt.Println(c.Type(), "returned", err)
			return err
		}
	})
	router.RPC(r, "chat.send", func(_ *router.Context, m Say) (Say, error) { return m, nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send","meta":{"correlationId":"1"},"payload":{"text":"  hi "}}`)
	c.receive(1)
	// Output:
	// chat.send returned <nil>
	// {"type":"chat.send.reply","meta":{"correlationId":"1"},"payload":{"text":"hi"}}
}

// A rejection may end the connection, whatever Limits.OnExceeded says.
func ExampleRouter_Use_closing() {
	r := router.New()
	r.Use(func(next ingress.Handler) ingress.Handler {
		return func(c *ingress.Context) error {
			if c.Identity.Tier == "" {
				return c.Reject(errors.LimitExceeded{
					Kind: errors.LimitBanned, RetryAfter: time.Minute, Close: errors.CloseTooManyRequests,
				})
			}
			return next(c)
		}
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"chat.send"}`)
	c.receive(1)
	// Output:
	// closed: 4429 {"retryAfterMs":60000}
}

func ExampleContext_Progress() {
	type Percent struct {
		Done int `json:"done"`
	}
	r := router.New()
	router.RPC(r, "import", func(c *router.Context, _ struct{}) (string, error) {
		for _, done := range []int{50, 100} {
			if err := c.Progress(Percent{done}); err != nil {
				return "", err
			}
		}
		return "imported", nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"import","meta":{"correlationId":"1"}}`)
	c.receive(3)
	// Output:
	// {"type":"$ws:rpc-progress","meta":{"correlationId":"1"},"data":{"done":50},"payload":{"done":50}}
	// {"type":"$ws:rpc-progress","meta":{"correlationId":"1"},"data":{"done":100},"payload":{"done":100}}
	// {"type":"import.reply","meta":{"correlationId":"1"},"payload":"imported"}
}

// The client takes its request back, and the query that was made for it ends.
func ExampleContext() {
	ended := make(chan error)
	query := func(ctx context.Context) error { // a database
		<-ctx.Done()
		return ctx.Err()
	}
	r := router.New()
	router.RPC(r, "search", func(c *router.Context, _ struct{}) (string, error) {
		err := query(c)
		ended <- err
		return "", err
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"search","meta":{"correlationId":"02b7"}}`)
	c.send(`{"type":"$ws:abort","meta":{"correlationId":"02b7"}}`)
	c.receive(1)
	fmt.Println("the query:", <-ended)
	// Output:
	// {"type":"RPC_ERROR","meta":{"correlationId":"02b7"},"payload":{"code":"CANCELLED","message":"aborted by the client","retryable":false}}
	// the query: context canceled
}

func ExampleRegisterValidation() {
	slug := regexp.MustCompile(`^[a-z0-9-]+$`)
	err := router.RegisterValidation("slug", func(f validator.FieldLevel) bool {
		return slug.MatchString(f.Field().String())
	})
	if err != nil {
		panic(err)
	}

	type Join struct {
		Room string `json:"room" validate:"slug"`
	}
	r := router.New()
	router.On(r, "room.join", func(*router.Context, Join) error { return nil })

	c := connect(r)
	defer c.close()
	c.send(`{"type":"room.join","payload":{"room":"The Lobby"}}`)
	c.receive(1)
	// Output:
	// {"type":"ERROR","payload":{"type":"room.join","code":"INVALID_ARGUMENT","message":"payload is not valid: room does not pass slug","retryable":false,"details":{"fields":[{"path":"room","rule":"slug"}]}}}
}

// A client in Go reads which fields were at fault.
func ExampleFieldError() {
	details := `{"fields":[{"path":"text","rule":"max","param":"500"}]}`
	var fault struct {
		Fields []router.FieldError `json:"fields"`
	}
	if err := json.Unmarshal([]byte(details), &fault); err != nil {
		panic(err)
	}
	for _, f := range fault.Fields {
		fmt.Println(f.Path, f.Rule, f.Param)
	}
	// Output: text max 500
}
