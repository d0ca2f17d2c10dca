package engine

import (
	"testing"
	"time"
)

// A window begins at the first minute of its first date, by a walk through all minutes of years in which clocks were moved
// at midnight, past it, by half an hour and by a whole day.
func TestCalendarBeginsWithItsDate(t *testing.T) {
	for _, c := range []struct {
		location string
		year     int
	}{
		{"UTC", 2028}, {"Europe/Berlin", 2026}, {"America/New_York", 2026}, {"Australia/Lord_Howe", 2026},
		{"America/Sao_Paulo", 2018}, // midnight is skipped
		{"Asia/Beirut", 2026},       // midnight is skipped; the last hour of a day comes twice
		{"America/St_Johns", 2010},  // at 00:01 the clock goes back into the day before
		{"Pacific/Apia", 2011},      // 30 December does not exist
	} {
		t.Run(c.location, func(t *testing.T) {
			t.Parallel()
			location, err := time.LoadLocation(c.location)
			if err != nil {
				t.Fatal(err)
			}
			day, week, month := &calendar{days: 1, location: location}, &calendar{days: 7, location: location}, &calendar{months: 1, location: location}
			var latest time.Time // midnight in UTC of the latest date
			var days, weeks, months int64
			first := time.Date(c.year, 1, 1, 0, 0, 0, 0, time.UTC)
			for at := first.Add(-40 * 24 * time.Hour); at.Year() <= c.year; at = at.Add(time.Minute) {
				y, m, d := at.In(location).Date()
				if date := time.Date(y, m, d, 0, 0, 0, 0, time.UTC); date.After(latest) {
					days = at.UnixMicro()
					if latest.IsZero() || m != latest.Month() {
						months = days
					}
					if _, w := date.ISOWeek(); latest.IsZero() || w != isoWeek(latest) {
						weeks = days
					}
					latest = date
				}
				if at.Before(first) {
					continue // the walk began within a month
				}
				for _, one := range []struct {
					calendar *calendar
					start    int64
				}{{day, days}, {week, weeks}, {month, months}} {
					w := one.calendar.window(at.UnixMicro())
					if w.start != one.start || w.end <= at.UnixMicro() {
						t.Fatalf("%d days, %d months: at %v the window is from %v to %v, not from %v", one.calendar.days, one.calendar.months,
							at.In(location), time.UnixMicro(w.start).In(location), time.UnixMicro(w.end).In(location), time.UnixMicro(one.start).In(location))
					}
				}
			}
		})
	}
}

func isoWeek(t time.Time) int {
	_, week := t.ISOWeek()
	return week
}

// The numbers for another implementation are right while its clock is up to a day before or behind.
func TestCalendarNumbersHoldForADay(t *testing.T) {
	plan, err := Calendar(policy("days"), 5, 1, 0, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	n := plan.Numbers(nil, noon.UnixMicro())
	for i, want := range []int{-36, -12, 12, 36} {
		if got := time.UnixMicro(n[1+i]).UTC(); !got.Equal(noon.Add(time.Duration(want) * time.Hour)) {
			t.Errorf("start %d is %v", i, got)
		}
	}
}

func BenchmarkCalendar(b *testing.B) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	plan, _ := Calendar(policy("months"), 1<<40, 0, 1, berlin)
	state := make([]int64, 2)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	var d Answer
	b.ReportAllocs()
	for b.Loop() {
		state, _ = plan.Take(&d, state, now, 1)
	}
}
