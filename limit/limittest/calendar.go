package limittest

import (
	"time"
	_ "time/tzdata" // for machines without tables of time zones

	"pgregory.net/rapid"

	"github.com/wskit/wskit/limit"
)

// windows number the fixed windows of a policy in order.
type windows struct {
	number func(at int64) int64
	start  func(number int64) int64 // the first instant that has this number or a later one
}

func windowsOf(p limit.Policy) windows {
	if c, ok := p.(limit.Calendar); ok {
		return windows{number: func(at int64) int64 { return number(c, at) }, start: func(n int64) int64 {
			low, high := int64(0), int64(1)<<52 // sort.Search has no instants where int has 32 bits
			for low < high {
				if middle := (low + high) / 2; number(c, middle) < n {
					low = middle + 1
				} else {
					high = middle
				}
			}
			return low
		}}
	}
	w := p.(limit.FixedWindow).Window.Microseconds()
	return windows{number: func(at int64) int64 { return at / w }, start: func(n int64) int64 { return n * w }}
}

// number is how many days, weeks or months the calendar at an instant is after the epoch's.
func number(c limit.Calendar, at int64) int64 {
	location := c.Location
	if location == nil {
		location = time.UTC
	}
	year, month, day := time.UnixMicro(at).In(location).Date()
	days := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400
	switch c.Period {
	case limit.Day:
		return days
	case limit.Week:
		return (days + 3) / 7 // the epoch was a Thursday
	default:
		return int64(year)*12 + int64(month)
	}
}

// zones have clocks that are moved by an hour, by half an hour, at midnight, or not at all.
var zones = []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "Asia/Kathmandu"}

func anyCalendar() *rapid.Generator[limit.Policy] {
	return rapid.Custom(func(t *rapid.T) limit.Policy { return drawCalendar(t, anyLimit(t, "limit")) })
}

func drawCalendar(t *rapid.T, most int64) limit.Calendar {
	location, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "location"))
	if err != nil {
		t.Fatal(err)
	}
	return limit.Calendar{
		Limit: most, Period: rapid.SampledFrom([]limit.Period{limit.Day, limit.Week, limit.Month}).Draw(t, "period"), Location: location,
	}
}
