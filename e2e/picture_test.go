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
)

// maxPicture is what a picture of the README may have, in bytes.
const maxPicture = 60_000

var writePicture = flag.Bool("picture", false, "write the picture of the README, docs/flood.png")

// The picture of the README: the chat when a tab has sent 500 messages at once.
//
//	go test -run TestPictureOfTheFlood -picture .
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
	shot := ada.capture()

	small, err := withFewColours(shot)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d before", len(small), len(shot))
	if len(small) > maxPicture {
		t.Errorf("the picture has %d bytes; the README has room for %d", len(small), maxPicture)
	}
	if *writePicture {
		if err := os.WriteFile("../docs/flood.png", small, 0o644); err != nil {
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
