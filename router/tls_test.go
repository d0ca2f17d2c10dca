package router_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/router"
)

// socketsOverTLS has serveSocket serve TLS.
var socketsOverTLS bool

// What clients are promised over TCP they are promised over TLS: slow ones, those that
// stop reading or disappear, closing with a full queue, back-pressure, order, floods.
func TestOverTLS(t *testing.T) {
	socketsOverTLS = true
	t.Cleanup(func() { socketsOverTLS = false })
	for _, test := range []struct {
		name string
		test func(*testing.T)
	}{
		{"slow consumer", TestSlowConsumerIsCutOffAndDelaysNobody},
		{"replies that are not read", TestRepliesToAClientThatNeverReads},
		{"answers of waiting requests", TestAnswersOfWaitingRequestsStayBounded},
		{"write timeout", TestWriteTimeout},
		{"reader that resumes", TestReaderThatResumes},
		{"overflow policies", TestOverflowPolicies},
		{"disappearing", TestDisappearing},
		{"half closed", TestHalfClosedClientGetsItsAnswers},
		{"silence", TestSilence},
		{"a frame that trickles in", TestAFrameThatTricklesIn},
		{"nothing but pings", TestNothingButPings},
		{"close that is not answered", TestCloseIsNotAnswered},
		{"slow but steady reader", TestSlowButSteadyReaderIsAlive},
		{"progress without reading", TestProgressToWhoDoesNotRead},
		{"leaving behind a full queue", TestWhoGoesBehindAFullQueueIsNoticed},
		{"fan-out", TestPublishedMessagesDoNotWaitForThePublisher},
		{"publish and leave", TestPublishAndLeave},
		{"order", TestOrderOfTenThousand},
		{"order under back-pressure", TestOrderOfEventsUnderBackpressure},
		{"split at every byte", TestSplitAtEveryByte},
		{"pipelined", TestPipelined},
		{"sizes", TestSizes},
		{"reply larger than the queue", TestReplyLargerThanTheQueue},
		{"floods", TestFloodsWithoutMessages},
		{"early data", TestEarlyData},
		{"storm of senders", TestStormOfSenders},
		{"handlers that hang", TestHandlersThatHang},
	} {
		t.Run(test.name, test.test)
	}
}

// An idle connection holds what TLS needs, a stack that is small, and no buffer.
func TestIdleConnectionsOverTLSAreSmall(t *testing.T) {
	if race.Enabled {
		t.Skip("stacks are larger under the race detector")
	}
	const connections = 200
	s := serveTLS(t, router.Options{}, nil)
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC() // the first leaves what pools hold
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	p := s.dial()
	p.write(echo("1", "warm"))
	p.expect("reply 1 warm")
	before := inUse()
	for i := range connections {
		p := s.dial()
		p.write(echo(fmt.Sprint(i), "x"))
		p.expect(fmt.Sprintf("reply %d x", i))
	}
	// The clients are here, too: they hold as much TLS, and 4 KB to read by.
	const each = 32 << 10
	if got := (inUse() - before) / connections; got > each {
		t.Errorf("a connection and its client hold %d bytes, want %d at most", got, each)
	}
}
