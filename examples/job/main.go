// Job does work that goes on when the page is left. A page that comes back sees how far it is.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/wskit/wskit/router"
)

type Progress struct {
	Job     string `json:"job"`
	Percent int    `json:"percent"`
}

func newRouter() *router.Router {
	r := router.New()
	r.History("job:*", router.HistoryOptions{Messages: 100, Age: time.Hour})
	progressed := router.Declare[Progress](r, "job.progressed")
	router.RPC(r, "job.start", func(c *router.Context, _ struct{}) (string, error) {
		job := rand.Text()
		if err := c.Subscribe("job:" + job); err != nil {
			return "", err
		}
		go work(context.WithoutCancel(c.Detach()), func(ctx context.Context, percent int) error {
			return progressed.Publish(ctx, "job:"+job, Progress{job, percent})
		})
		return job, nil
	})
	router.RPC(r, "job.follow", func(c *router.Context, job string) (bool, error) {
		return true, c.SubscribeFrom("job:"+job, "") // all that was published, and what follows
	})
	return r
}

// work stands for something that takes long.
func work(ctx context.Context, report func(ctx context.Context, percent int) error) {
	for percent := 10; percent <= 100; percent += 10 {
		time.Sleep(300 * time.Millisecond)
		if err := report(ctx, percent); err != nil {
			log.Print(err)
		}
	}
}

func main() {
	addr := cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080")
	r := newRouter()
	log.Println("ws://" + addr)
	log.Fatal(r.Serve(context.Background(), &http.Server{Addr: addr, Handler: r}))
}
