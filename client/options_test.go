package client_test

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/client"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	for want, o := range map[string]client.Options{
		"ConnectTimeout is -1s":   {ConnectTimeout: -time.Second},
		"PongTimeout -1s":         {PongTimeout: -time.Second},
		"MinBackoff is -1s":       {MinBackoff: -time.Second},
		"MaxBackoff 1s; set":      {MinBackoff: time.Minute, MaxBackoff: time.Second},
		"MaxQueued, MaxQueuedByt": {MaxQueued: -1},
		"MaxMessage is negative":  {MaxMessage: -1},
	} {
		if _, err := client.Dial(context.Background(), "ws://127.0.0.1:1", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	synctest.Test(t, func(t *testing.T) { // no time passes during an attempt
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := client.Dial(ctx, "ws://127.0.0.1:1", quick(client.Options{HTTPClient: &http.Client{Transport: noServer{}}}))
		if err == nil || !strings.Contains(err.Error(), "deadline exceeded") || !strings.Contains(err.Error(), "the last attempt: ") {
			t.Errorf("without a server: %v", err)
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("two MessageOptions are accepted")
		}
	}()
	_ = client.Send(context.Background(), nil, "t", nil, client.MessageOptions{}, client.MessageOptions{})
}

// noServer is a network in which no server listens.
type noServer struct{}

func (noServer) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }
