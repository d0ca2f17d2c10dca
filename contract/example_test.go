package contract_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/router"
)

func Example() {
	type Greet struct {
		Name string `json:"name" validate:"required,max=24"`
		Mood string `json:"mood,omitempty" validate:"omitempty,oneof=formal warm"`
	}
	type Greeting struct {
		Text string `json:"text"`
	}
	r := router.New()
	router.RPC(r, "greet", func(_ *router.Context, q Greet) (Greeting, error) {
		return Greeting{"Hello " + q.Name}, nil
	}, router.RouteOptions{Doc: "greets by name"})

	c, err := contract.Of(r, contract.Options{Title: "Greeter"})
	if err != nil {
		log.Fatal(err) // names what cannot be described
	}
	_, types, _ := strings.Cut(string(c.TypeScript()), "  requests: ")
	fmt.Print(types)
	// Output:
	// {
	//     /** greets by name */
	//     "greet": { request: Greet; reply: Greeting; progress: never };
	//   };
	//   /** from the client, and not answered */
	//   sends: Record<never, never>;
	//   /** from the server */
	//   events: Record<never, never>;
	//   /** from the server, and answered by the client */
	//   questions: Record<never, never>;
	// }
	//
	// export interface Greet {
	//   name: string;
	//   mood?: "formal" | "warm";
	// }
	//
	// export interface Greeting {
	//   text: string;
	// }
}
