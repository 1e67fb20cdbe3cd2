package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"
)

// Server is the admin port of one worker.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Deadlines of one admin request. A CPU profile takes the seconds it is asked
// for, 30 by default, and pprof refuses a longer one than writeTimeout itself.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 2 * time.Minute
	idleTimeout   = time.Minute
	closeGrace    = 3 * time.Second
	maxHeader     = 16 << 10
)

// Listen binds addr ("host:port"; port 0 lets the kernel choose). Connections
// queue until Serve is called, so a taken port is found before the data port
// opens.
func Listen(addr string, log *slog.Logger) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen %s: address already in use", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", addr, bare(err))
	}
	return &Server{
		listener: newBoundedListener(l, maxConns),
		http: &http.Server{
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
	}, nil
}

// bare strips net's own "listen tcp ADDR:" from err.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Addr is the bound address.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers for w until Close. It returns nil after Close.
func (s *Server) Serve(w Worker) error {
	s.http.Handler = routes(w)
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close stops the port and gives requests in progress closeGrace to end.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	// Before Serve the http.Server does not know the listener yet.
	if cerr := s.listener.Close(); err == nil && !errors.Is(cerr, net.ErrClosed) {
		err = cerr
	}
	return err
}

func routes(w Worker) *http.ServeMux {
	w.series = newSeries(w.TopTenants, w.AlwaysTenants)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index)
	mux.HandleFunc("GET /livez", w.livez)
	mux.HandleFunc("GET /readyz", w.readyz)
	mux.HandleFunc("GET /metrics", w.metrics)
	mux.HandleFunc("GET /api/v1/status", w.status)
	if w.Tenancy != nil {
		mux.HandleFunc("GET /api/v1/tenants", w.tenants)
		mux.HandleFunc("GET /api/v1/violators", w.violators)
	}
	if w.Peers != nil {
		mux.HandleFunc("GET /api/v1/peers", w.peers)
	}
	if w.Keys != nil {
		mux.HandleFunc("GET /api/v1/keys", w.keys)
	}
	if w.SetLogLevel != nil {
		mux.HandleFunc("PUT /api/v1/loglevel", w.setLogLevel)
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func index(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "talon admin: /livez /readyz?verbose /metrics /api/v1/status /api/v1/tenants /api/v1/violators /api/v1/peers /api/v1/keys /debug/pprof/\n")
}

func plain(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body)) // the reader may be gone; nobody to tell
}
