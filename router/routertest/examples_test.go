package routertest_test

import "testing"

// The tests that the examples show pass.
func TestExamples(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"MessagesReachTheRoom":     testMessagesReachTheRoom,
		"RoomNeedsName":            testRoomNeedsName,
		"StrangeMessageIsAnswered": testStrangeMessageIsAnswered,
		"OthersHearNothing":        testOthersHearNothing,
		"LeavingIsConfirmed":       testLeavingIsConfirmed,
		"ReportTakesTooLong":       testReportTakesTooLong,
		"TheClient":                testTheClient,
	} {
		t.Run(name, test)
	}
}
