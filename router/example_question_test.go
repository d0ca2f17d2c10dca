package router_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// The handler of a request asks the client that has sent it. The client answers, or says why not.
func ExampleDeclareQuestion() {
	type (
		Delete struct {
			Files []string `json:"files"`
		}
		Confirm struct {
			Text string `json:"text"`
		}
		Confirmed struct {
			Yes bool `json:"yes"`
		}
	)
	r := router.New()
	confirm := router.DeclareQuestion[Confirm, Confirmed](r, "confirm")
	router.RPC(r, "files.delete", func(c *router.Context, q Delete) (struct{}, error) {
		answer, err := confirm.Ask(c, c.Conn(), Confirm{Text: fmt.Sprintf("Delete %d files?", len(q.Files))})
		switch {
		case err != nil:
			return struct{}{}, err
		case !answer.Yes:
			return struct{}{}, errors.Cancelled.New("not confirmed")
		}
		return struct{}{}, nil
	})

	c := connect(r)
	defer c.close()
	c.send(`{"type":"files.delete","meta":{"correlationId":"1"},"payload":{"files":["a","b"]}}`)
	c.receive(1)
	c.send(`{"type":"$ws:answer","meta":{"correlationId":"$ws:1"},"payload":{"yes":true}}`)
	c.receive(1)
	c.send(`{"type":"files.delete","meta":{"correlationId":"2"},"payload":{"files":["c"]}}`)
	c.receive(1)
	c.send(`{"type":"$ws:answer","meta":{"correlationId":"$ws:2"},"error":{"code":"UNAVAILABLE","message":"the dialog is open"}}`)
	c.receive(1)
	// Output:
	// {"type":"confirm","meta":{"correlationId":"$ws:1"},"payload":{"text":"Delete 2 files?"}}
	// {"type":"files.delete.reply","meta":{"correlationId":"1"}}
	// {"type":"confirm","meta":{"correlationId":"$ws:2"},"payload":{"text":"Delete 1 files?"}}
	// {"type":"RPC_ERROR","meta":{"correlationId":"2"},"payload":{"code":"UNAVAILABLE","message":"the dialog is open","retryable":true}}
}

// A question is asked on all devices of a user. One of them answers, and the other does not show it any more.
func ExampleQuestion_AskFirst() {
	r := router.New(router.Options{Authenticate: func(*http.Request) (ingress.Identity, error) {
		return ingress.Identity{User: "ann"}, nil
	}})
	approve := router.DeclareQuestion[string, bool](r, "payment.approve")
	phone, laptop := connect(r), connect(r)
	defer phone.close()
	defer laptop.close()
	ctx := context.Background()
	ann := r.User("", "ann")
	for n := 0; n < 2; { // only the connections of now are asked
		n, _ = ann.Count(ctx)
	}
	answered := make(chan string)
	go func() {
		yes, err := approve.AskFirst(ctx, ann, "Pay 7 EUR?")
		answered <- fmt.Sprint("approved: ", yes, " ", err)
	}()
	phone.receive(1)
	laptop.receive(1)
	phone.send(`{"type":"$ws:answer","meta":{"correlationId":"$ws:1"},"payload":true}`)
	fmt.Println(<-answered)
	laptop.receive(1)
	// Output:
	// {"type":"payment.approve","meta":{"correlationId":"$ws:1"},"payload":"Pay 7 EUR?"}
	// {"type":"payment.approve","meta":{"correlationId":"$ws:1"},"payload":"Pay 7 EUR?"}
	// approved: true <nil>
	// {"type":"$ws:abort","meta":{"correlationId":"$ws:1"}}
}
