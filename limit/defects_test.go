package limit_test

import (
	"os"
	"strings"
	"testing"
)

// defects says which tests would fail if a known defect of other systems were
// here, as file and what stands in it: a test, a part of the suite of stores, or
// a fault that the suite has to catch.
var defects = map[string][][2]string{
	"1 refill rounded down": {
		{"limittest/limittest.go", `"PollingNeverLosesTime"`}, {"limittest/limittest.go", `"EveryRateIsExact"`}, {"limittest/limittest_test.go", `"RefillRoundedDown"`},
	},
	"2 retry too small, too large, or for the impossible": {
		{"limittest/limittest.go", `"RetryAfterIsExact"`}, {"limittest/limittest.go", `"WaitsAreExact"`}, {"limittest/limittest.go", `"ImpossibleIsNotRetryable"`},
		{"limittest/limittest_test.go", `"RetryTooShort"`}, {"limittest/limittest_test.go", `"RetryTooLong"`}, {"../middleware/ratelimit/ratelimit_test.go", "TestImpossibleCost"},
	},
	"3 a clock that swings back": {
		{"limittest/limittest.go", `"ClockSwings"`}, {"limittest/limittest.go", `"ClockSetBack"`}, {"limittest/limittest.go", `"WindowsTolerateSwings"`}, {"limittest/limittest.go", `"WindowsSetBack"`},
		{"limittest/limittest_test.go", `"TimeCreditedTwice"`}, {"limittest/limittest_test.go", `"AnotherWindowIsFresh"`}, {"limittest/limittest_test.go", `"FrozenUntilTheClockCatchesUp"`},
	},
	"4 invalid is unlimited": {
		{"tokenbucket_test.go", "TestInvalidPolicies"}, {"policies_test.go", "TestInvalidWindows"}, {"limiter_test.go", "TestCostBelowOneIsRefused"}, {"ask_test.go", "TestAsksAreChecked"},
		{"limittest/limittest.go", `"InvalidIsRefused"`}, {"limittest/limittest_test.go", `"NegativeCostAddsTokens"`},
	},
	"5 floating point": {
		{"tokenbucket_test.go", "TestNothingLeavesTheExactRange"}, {"policies_test.go", "TestNoWindowLeavesTheExactRange"},
		{"limittest/limittest.go", `"Extremes"`}, {"limittest/limittest_test.go", `"FloatingPoint"`},
	},
	"6 a denial charges": {
		{"limittest/limittest.go", `"DenialChangesNothing"`}, {"limittest/limittest.go", `"CompositesChargeAllOrNone"`}, {"limittest/limittest.go", `"AllOrNone"`},
		{"limittest/limittest_test.go", `"DenialCharges"`}, {"limittest/limittest_test.go", `"PartsChargedOneByOne"`}, {"limittest/limittest_test.go", `"NotUndone"`}, {"ask_test.go", "TestTakeAll"},
	},
	"7 sliding windows": {
		{"limittest/limittest.go", `"NoSpanAdmitsMore"`}, {"limittest/limittest_test.go", `"LogSavedWhenItsLengthChanged"`},
		{"limittest/limittest_test.go", `"ResetFromTheOldest"`}, {"limittest/limittest_test.go", `"DeniedUntilTheWindowEnds"`},
	},
	"8 a maximum that ignores the window": {
		{"../middleware/ratelimit/rules/resolve_test.go", "TestMaximumIsARate"}, {"../middleware/ratelimit/rules/resolve_test.go", "TestMaximumHoldsWhateverTheRulesSay"},
	},
	"9 keys that collide": {
		{"key_test.go", "TestKeysNeverCollide"}, {"key_test.go", "FuzzKey"}, {"limittest/limittest.go", `"KeysAreApart"`}, {"limittest/limittest_test.go", `"KeysCutAtSeparator"`},
	},
	"10 limiters without a name share": {
		{"limiter_test.go", "TestUnnamedLimitersShareNothing"}, {"limittest/limittest.go", `"LimitersAreApart"`}, {"limiter_test.go", "TestWiringMistakesPanic"},
	},
	"11 types are chosen by attackers":    {{"../middleware/ratelimit/key_test.go", "TestUnregisteredTypesShareOneLimit"}},
	"12 reconnecting gives a full bucket": {{"../middleware/ratelimit/key_test.go", "TestReconnectingIsNoFreshStart"}},
	"13 unbounded maps and live entries evicted": {
		{"../internal/table/table_test.go", "TestFloodEvictsOnlyExpiredEntries"}, {"../internal/table/table_test.go", "TestExpiredEntriesFreeCapacity"}, {"../internal/table/words_test.go", "TestSpaceBoundsItsTables"},
		{"../adapters/memory/store_test.go", "TestKeyFlood"}, {"../adapters/memory/store_policies_test.go", "TestFloodOfWideStates"},
	},
}

// TestDefectsHaveTests holds the table to the code.
func TestDefectsHaveTests(t *testing.T) {
	for defect, tests := range defects {
		for _, test := range tests {
			text, err := os.ReadFile(test[0])
			if err != nil {
				t.Errorf("defect %s: %v", defect, err)
				continue
			}
			want := test[1]
			if strings.HasPrefix(want, "Test") || strings.HasPrefix(want, "Fuzz") {
				want = "func " + want + "("
			}
			if !strings.Contains(string(text), want) {
				t.Errorf("defect %s: %s has no %s", defect, test[0], test[1])
			}
		}
	}
}
