package admin

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestServeAndClose(t *testing.T) {
	s, err := Listen("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(testWorker()) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + s.Addr() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if string(body) != "ok\n" {
		t.Errorf("got %q", body)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve returned %v after Close, want nil", err)
	}
	if c, err := net.Dial("tcp", s.Addr()); err == nil {
		_ = c.Close()
		t.Error("the port is still open after Close")
	}
}

// TestCloseBeforeServe: a start that fails after the admin port was bound must
// give it back.
func TestCloseBeforeServe(t *testing.T) {
	s, err := Listen("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	again, err := Listen(s.Addr(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("the port was not given back: %v", err)
	}
	_ = again.Close()
}

func TestListenErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr := taken.Addr().String()
	for in, want := range map[string]string{
		addr:             "listen " + addr + ": address already in use",
		"127.0.0.1":      "listen 127.0.0.1: ",
		"127.0.0.1:x":    "listen 127.0.0.1:x: ",
		"192.0.2.1:9090": "listen 192.0.2.1:9090: ",
	} {
		s, err := Listen(in, slog.New(slog.DiscardHandler))
		if err == nil {
			_ = s.Close()
			t.Errorf("Listen(%q) succeeded", in)
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, want) || strings.Count(got, "listen") != 1 {
			t.Errorf("Listen(%q) = %q, want %q...", in, got, want)
		}
	}
}

// pipeListener hands out in-memory connections, as many as asked for.
type pipeListener struct {
	net.Listener // Addr is never asked for
	peers        chan net.Conn
}

func (l pipeListener) Accept() (net.Conn, error) {
	ours, peer := net.Pipe()
	l.peers <- peer
	return ours, nil
}

func (pipeListener) Close() error { return nil }

func TestConnectionsAreBounded(t *testing.T) {
	l := newBoundedListener(pipeListener{peers: make(chan net.Conn, 8)}, 2)
	first, _ := l.Accept()
	_, _ = l.Accept()
	third := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		third <- err
	}()
	_ = first.Close()
	_ = first.Close() // a second close must not free a second place
	if err := <-third; err != nil {
		t.Fatalf("a closed connection freed no place: %v", err)
	}
	if len(l.tokens) != 2 {
		t.Fatalf("%d places taken, want 2", len(l.tokens))
	}
	go func() {
		_, err := l.Accept()
		third <- err
	}()
	_ = l.Close()
	if err := <-third; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a waiting Accept returned %v after Close, want net.ErrClosed", err)
	}
}
