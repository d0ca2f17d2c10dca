package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// A drawing has its last maxStrokes strokes, for a day after the last one.
const (
	maxStrokes = 2000
	maxAge     = 24 * time.Hour
)

type (
	// Join enters a board, or says again that the page is there.
	Join struct {
		Board string `json:"board" validate:"required,max=32,alphanum"`
		Name  string `json:"name" validate:"required,max=24"`
		// Fresh asks for the whole drawing.
		Fresh bool `json:"fresh,omitzero"`
	}
	Joined struct {
		You string `json:"you"` // the page's member id
	}
	// Person is what others know of a member.
	Person struct {
		Name string `json:"name"`
		Hue  int    `json:"hue"` // of the member's colour, in degrees
	}

	// Line is a part of a drawing. Points has x and y of each point: the sheet is 4,096 units wide and 3,072 high, and
	// what is below it is not seen.
	Line struct {
		Colour int   `json:"colour" validate:"min=0,max=7"` // of the page's palette
		Width  int   `json:"width" validate:"min=1,max=200"`
		Points []int `json:"points" validate:"min=2,max=256,dive,min=0,max=4095"`
	}
	// Stroke is drawn once, however often it is sent with its ID.
	Stroke struct {
		ID string `json:"id" validate:"required,max=40"`
		Line
	}
	StrokeID struct {
		ID string `json:"id" validate:"required,max=40"`
	}
	Cursor struct {
		X int `json:"x" validate:"min=0,max=4095"`
		Y int `json:"y" validate:"min=0,max=3071"`
		// Line is what is being drawn.
		Line *Line `json:"line,omitzero"`
	}

	// Drawn, Undone and Cleared are what a drawing consists of, in this order.
	Drawn struct {
		By string `json:"by"`
		Stroke
	}
	Undone struct {
		By string `json:"by"`
		ID string `json:"id"`
	}
	Cleared struct {
		By   string `json:"by"`
		Name string `json:"name"`
	}
	// Moved is a cursor of another member.
	Moved struct {
		By string `json:"by"`
		Cursor
	}
)

// place is the board of a connection, and its name there.
type place struct{ board, name string }

// where is the place of a connection that has joined a board.
var where = ingress.NewKey[place]()

// Boards is the server. It is the http.Handler of its router.
type Boards struct {
	*router.Router
	members members
	drawn   router.Event[Drawn]
	undone  router.Event[Undone]
	cleared router.Event[Cleared]
	moved   router.Event[Moved]
	confirm router.Question[Confirm, Confirmed]
}

func NewBoards(b adapters.Backend) *Boards {
	boards := &Boards{members: newMembers()}
	r := router.New(router.Options{
		Authenticate: identify,
		OnClose:      func(c *router.Conn, _ router.CloseInfo) { boards.members.remove(c) },
		Backend:      b,
	})
	boards.Router = r
	r.History("board:*", router.HistoryOptions{Messages: maxStrokes, Bytes: 4 << 20, Age: maxAge})
	limits := newLimits(b.Limits)
	r.Use(limits.address)

	boards.drawn = router.Declare[Drawn](r, "stroke.drawn")
	boards.undone = router.Declare[Undone](r, "stroke.undone", router.EventOptions{Doc: "if the stroke is of the same member"})
	boards.cleared = router.Declare[Cleared](r, "board.cleared")
	boards.moved = router.Declare[Moved](r, "cursor.moved", router.EventOptions{Doc: "the latest one of each member"})
	boards.confirm = router.DeclareQuestion[Confirm, Confirmed](r, "board.confirm", router.QuestionOptions{Timeout: confirmTime})

	router.RPC(r, "board.join", boards.join)
	strokes := r.With(limits.strokes)
	router.RPC(strokes, "stroke.draw", boards.draw)
	router.RPC(strokes, "stroke.undo", boards.undo)
	// Cursors over the limit are dropped: the next one is newer.
	router.On(r.With(limits.cursors), "cursor.move", boards.move, router.RouteOptions{Silent: true})
	router.RPC(r.With(limits.clears), "board.clear", boards.clear, router.RouteOptions{
		Progress: Asking{}, Concurrent: true, Timeout: confirmTime + 5*time.Second, // while it waits, its page goes on drawing
	})
	return boards
}

// identify identifies pages by a random token that each keeps. Others see a hash of it. This is
// not authentication: a page with a new token is a new member.
func identify(r *http.Request) (ingress.Identity, error) {
	token := ingress.Token(r)
	if len(token) < 16 || len(token) > 64 {
		return ingress.Identity{}, errors.Unauthenticated.New("connect with a random token of 16 to 64 characters")
	}
	sum := sha256.Sum256([]byte(token))
	return ingress.Identity{User: hex.EncodeToString(sum[:8])}, nil
}

func topicOf(board string) string      { return "board:" + board }
func cursorsTopic(board string) string { return "cursors:" + board }

// join subscribes the page to a board. A page that has resumed the topic of the board has all of
// the drawing; another one gets it as events.
func (b *Boards) join(c *router.Context, q Join) (Joined, error) {
	q.Name = strings.Join(strings.FieldsFunc(q.Name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if q.Name == "" {
		return Joined{}, errors.InvalidArgument.New("a name needs at least one visible character")
	}
	if from, _ := where.Get(c.Identity); from.board != "" && from.board != q.Board {
		c.Unsubscribe(topicOf(from.board))
		c.Unsubscribe(cursorsTopic(from.board))
	}
	topic := topicOf(q.Board)
	if q.Fresh {
		c.Unsubscribe(topic)
		if err := c.SubscribeFrom(topic, ""); err != nil {
			return Joined{}, err
		}
	}
	hue := b.members.add(c.Conn(), place{q.Board, q.Name})
	err := errors.Join(
		c.Join(topic, Person{q.Name, hue}),
		c.WatchPresence(topic, router.WatchOptions{ByUser: true}),
		c.Subscribe(cursorsTopic(q.Board)),
	)
	if err != nil {
		return Joined{}, err
	}
	where.Set(c.Identity, place{q.Board, q.Name})
	return Joined{You: c.Identity.User}, nil
}

// on returns the board that the page has joined.
func on(c *router.Context) (place, error) {
	at, _ := where.Get(c.Identity)
	if at.board == "" {
		return at, errors.FailedPrecondition.New("join a board first")
	}
	return at, nil
}

func (l Line) check() error {
	if len(l.Points)%2 != 0 {
		return errors.InvalidArgument.New("points has an x without a y")
	}
	return nil
}

func (b *Boards) draw(c *router.Context, s Stroke) (struct{}, error) {
	at, err := on(c)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, b.drawn.Publish(c, topicOf(at.board), Drawn{c.Identity.User, s}, once(c, "draw", s.ID))
}

func (b *Boards) undo(c *router.Context, q StrokeID) (struct{}, error) {
	at, err := on(c)
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, b.undone.Publish(c, topicOf(at.board), Undone{c.Identity.User, q.ID}, once(c, "undo", q.ID))
}

// once makes it safe to send a message again when it is not known whether it arrived.
func once(c *router.Context, what, id string) router.PublishOptions {
	return router.PublishOptions{ID: c.Identity.User + "/" + what + "/" + id}
}

// move shows a cursor to the others. A page that reads slowly gets the latest one of each.
func (b *Boards) move(c *router.Context, at Cursor) error {
	here, err := on(c)
	if err == nil && at.Line != nil {
		err = at.Line.check()
	}
	if err != nil {
		return err
	}
	return b.moved.Publish(c, cursorsTopic(here.board), Moved{c.Identity.User, at}, router.PublishOptions{
		Overflow: router.OverflowLatestOnly, Key: c.Identity.User, Except: c.Conn().ID(),
	})
}
