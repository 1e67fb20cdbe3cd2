package admin

import (
	"net"
	"sync"
)

// maxConns bounds the connections of the admin port. A scraper, a prober and a
// few people need a handful; more wait in the kernel's backlog.
const maxConns = 64

// boundedListener accepts only while a token is free; a connection gives its
// token back when it closes.
type boundedListener struct {
	net.Listener
	tokens chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newBoundedListener(l net.Listener, n int) *boundedListener {
	return &boundedListener{Listener: l, tokens: make(chan struct{}, n), closed: make(chan struct{})}
}

func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.tokens <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.tokens
		return nil, err
	}
	return &boundedConn{Conn: c, release: func() { <-l.tokens }}, nil
}

func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type boundedConn struct {
	net.Conn
	release func()
	once    sync.Once
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release) // net/http closes some connections twice
	return err
}
