package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// fetchToken calls Options.Token.
func (c *Client) fetchToken(ctx context.Context) (string, error) {
	token, err := c.opts.Token(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.denied != "" && token == c.denied {
		if c.same++; c.same >= sameTokens {
			return "", errNoOtherToken
		}
		return "", errSameToken
	}
	c.token, c.same = token, 0
	return token, nil
}

// sameTokens is how often in a row Options.Token may return a token that the server has refused: a cache may keep it
// for some seconds more.
const sameTokens = 5

var (
	errSameToken    = errors.Unavailable.New("Options.Token returned a token that the server has refused")
	errNoOtherToken = errors.Unauthenticated.New("Options.Token returns a token that the server has refused, again and again")
)

// denyToken records that the server refused the token. It reports whether there is no other one.
func (c *Client) denyToken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = c.token
	return c.opts.Token == nil
}

func tokenError(err error) *errors.Error {
	if refusesForGood(err) {
		return errors.From(err)
	}
	return errors.Unavailable.Wrap(err, "no token was obtained")
}

// refusesForGood reports whether there will be no token.
func refusesForGood(err error) bool {
	code := errors.CodeOf(err)
	return code == errors.Unauthenticated || code == errors.PermissionDenied
}

// renewEvery is the shortest time between two renewals, whatever the server says.
const renewEvery = time.Second

// expires records a notice of the server. The reader calls it.
func (l *link) expires(in time.Duration) {
	select {
	case <-l.expiring: // only the last notice counts
	default:
	}
	l.expiring <- time.Now().Add(in)
}

// renewals renews the identity of the connection after each notice. One that comes during a renewal, even before its
// answer, is about the identity after it.
func (l *link) renewals() {
	for {
		select {
		case until := <-l.expiring:
			l.renew(until)
		case <-l.ctx.Done():
			return
		}
		if !sleep(l.ctx, renewEvery) {
			return
		}
	}
}

// renew renews the identity of the connection, at a random time within the first half of what is left of it.
// If that fails until it expires, the server closes the connection, and the next attempt has another token.
func (l *link) renew(until time.Time) {
	left := max(0, time.Until(until))
	for pause := rand.N(left/2 + 1); sleep(l.ctx, pause) && time.Now().Before(until); pause = rand.N(l.c.opts.MinBackoff + left/4 + 1) {
		ctx, cancel := context.WithTimeout(l.ctx, l.c.opts.ConnectTimeout)
		token, err := l.c.fetchToken(ctx)
		cancel()
		if err == nil {
			err = l.ask(typeRenew, map[string]string{"token": token}, func(jsontext.Value, error) {})
		}
		if err == nil {
			return
		}
		l.c.opts.Logger.Warn("wskit client: the identity was not renewed", "error", err)
		if e := errors.From(err); !e.Retryable() && e.Code != errors.Internal {
			return
		}
	}
}
