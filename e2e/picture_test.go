package e2e

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
	"testing"

	"github.com/wskit/wskit/router/routertest"
)

// maxPicture is what a picture of the docs may have, in bytes.
const maxPicture = 60_000

var writePicture = flag.Bool("picture", false, "write the pictures of the docs, docs/*.png")

// The picture of the README: the chat when a tab has sent 500 messages at once.
//
//	make pictures
func TestPictureOfTheFlood(t *testing.T) {
	nightly(t)
	s := startChat(t)
	bob, ada := enter(t, s, "Bob"), openTab(t, s.url(), "Ada")
	ada.emulate(1080, 620, false, "light")
	ada.join()
	ada.people("Ada", "Bob")
	bob.say("Is the limit on?")
	ada.sees("Is the limit on?")
	ada.say("Let us see what 500 messages at once do.")
	ada.isRefused("And one more")
	keepPicture(t, ada.capture(), "flood")
}

// The picture of docs/inspector.md: a server of which one client sends too much, and one type fails. With -picture it is
// watched for longer.
func TestPictureOfTheInspector(t *testing.T) {
	nightly(t)
	s := startInspected(t)
	clients := []*routertest.Client{s.dial("ann"), s.dial("bob"), s.dial("eve")}
	op := openTab(t, s.url+"/login", "operator")
	op.emulate(1280, 620, false, "light")
	samples := 3
	if *writePicture {
		samples = 30
	}
	for n := range samples {
		op.until("the next sample is drawn", `(document.querySelector(".graph path")?.getAttribute("d").match(/[ML]/g) ?? []).length > `+js(n))
		for range 4 + 3*(n%7) {
			clients[0].Request("room.join", "lobby")
			clients[1].Request("room.join", "lobby")
		}
		clients[2].Request("report.make", n)
		clients[0].Request("export.run", n)
		if n%6 == 5 {
			clients = append(clients, s.dial("user-"+js(n)))
		}
	}
	op.until("what is wrong is shown", `document.querySelectorAll(".problems li").length >= 2`)
	keepPicture(t, op.capture(), "inspector")
}

// keepPicture checks the size of a picture of the docs, and writes it with -picture.
func keepPicture(t *testing.T, shot []byte, name string) {
	t.Helper()
	small, err := withFewColours(shot)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d before", len(small), len(shot))
	if len(small) > maxPicture {
		t.Errorf("the picture has %d bytes; the docs have room for %d", len(small), maxPicture)
	}
	if *writePicture {
		if err := os.WriteFile("../docs/"+name+".png", small, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// withFewColours encodes a PNG again with a palette of the 256 most frequent colours, in place of three bytes a pixel.
func withFewColours(shot []byte) ([]byte, error) {
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return nil, err
	}
	bounds := picture.Bounds()
	count := map[color.RGBA]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[rounded(picture.At(x, y))]++
		}
	}
	var colours color.Palette
	for c := range count {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.Color) int {
		return cmp.Compare(count[b.(color.RGBA)], count[a.(color.RGBA)])
	})
	few := image.NewPaletted(bounds, colours[:min(len(colours), 256)])
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			few.Set(x, y, rounded(picture.At(x, y)))
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few)
	return out.Bytes(), err
}

// rounded is a colour with fewer shades, so that those of letters' edges are few.
func rounded(c color.Color) color.RGBA {
	r, g, b, _ := c.RGBA()
	step := func(v uint32) uint8 { return uint8(min(255, (v>>8+4)/8*8)) }
	return color.RGBA{step(r), step(g), step(b), 255}
}
