package load

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Dial opens a connection, without TLS, for a client that writes and reads its frames itself.
func Dial(target Target) (net.Conn, *bufio.Reader, error) {
	addr, err := loopback(target.Addr)
	if err != nil {
		return nil, nil, err
	}
	nc, err := net.DialTimeout("tcp", addr.String(), stallAfter)
	if err != nil {
		return nil, nil, err
	}
	_ = nc.SetDeadline(time.Now().Add(stallAfter))
	br := bufio.NewReaderSize(nc, 64<<10)
	var res *http.Response
	if _, err = nc.Write(upgradeRequest(addr, target)); err == nil {
		res, err = http.ReadResponse(br, nil)
	}
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("load: the handshake is answered %s", res.Status)
	}
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, br, nc.SetDeadline(time.Time{})
}
