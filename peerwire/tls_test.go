package peerwire

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// An authority signs certificates, into a directory.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	a.cert = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, &a.key.PublicKey, nil)
	return a
}

// sign writes NAME.pem.
func (a *authority) sign(name string, c *x509.Certificate, pub *ecdsa.PublicKey, parent *x509.Certificate) *x509.Certificate {
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent = c
	}
	der := must(x509.CreateCertificate(rand.Reader, c, parent, pub, a.key))
	check(a.t, os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return must(x509.ParseCertificate(der))
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

// issue makes the TLS settings of a worker whose certificate has the given DNS names.
func (a *authority) issue(names ...string) *tls.Config {
	a.t.Helper()
	name := strings.ReplaceAll(strings.Join(names, "+"), "*", "any")
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	a.sign(name, &x509.Certificate{DNSNames: names, ExtKeyUsage: usage}, &key.PublicKey, a.cert)
	der := must(x509.MarshalECPrivateKey(key))
	check(a.t, os.WriteFile(a.file(name+"-key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	c, err := LoadTLS(a.file(name), a.file(name+"-key"), a.file("ca"))
	check(a.t, err)
	return c
}

// TestMutualTLS runs a cluster over TLS and sends those to its door who must not come in.
func TestMutualTLS(t *testing.T) {
	p := egress(64<<20, 4<<20)
	ours, theirs := newAuthority(t), newAuthority(t)
	c := newCluster(t, 3, func(c *Config) { c.TLS = ours.issue(string(c.Worker)) }, p)
	stop := c.load(0, p.Limit(), 64<<10)
	c.more(p.Limit(), 16<<20, "use over TLS")
	w := c.workers[0]
	noCert := ours.issue("w9")
	noCert.Certificates = nil
	elsewhere := theirs.issue("w9")
	elsewhere.RootCAs = ours.issue("w9").RootCAs
	for _, tt := range []struct {
		name  string
		tls   *tls.Config
		as    qos.WorkerID
		words string
	}{
		{"no TLS", nil, "w9", ""},
		{"no certificate", noCert, "w9", ""},
		{"a certificate of another authority", elsewhere, "w9", ""},
		{"a good certificate, made out to another worker", ours.issue("w9"), "w8", errIdentity.Error()},
		{"one for all workers", ours.issue("*"), "w9", errIdentity.Error()},
		{"one in other letters", ours.issue("W9"), "w9", errIdentity.Error()},
	} {
		before := w.node.Status().Wire.RefusedTLS
		conn := knock(t, w, nil)
		if tt.tls != nil {
			cfg := tt.tls.Clone()
			cfg.ServerName = string(w.id)
			conn = tls.Client(conn, cfg)
		}
		conn.Write(appendHello(nil, goodHello(w, tt.as)))
		if bye := farewell(t, conn); !strings.Contains(bye, tt.words) {
			t.Errorf("%s: told %q, want %q in it", tt.name, bye, tt.words)
		}
		until(t, tt.name+" is counted", func() bool { return w.node.Status().Wire.RefusedTLS == before+1 })
	}
	c.more(p.Limit(), 8<<20, "use after")
	stop()
	c.judge()
}

// TestCallersCheckWhoAnswers: a worker that dials hears no word of one whose certificate is not the expected worker's, though it is a worker's.
func TestCallersCheckWhoAnswers(t *testing.T) {
	ours := newAuthority(t)
	limits := qos.DefaultConfig()
	caller := greeter{self: "w1", epoch: 1, limits: sharedOf(&limits), ring: func() uint64 { return 1 }}
	caller.tls.Store(ours.issue("w1"))
	for _, tt := range []struct {
		name  string
		has   *tls.Config
		calls qos.WorkerID // itself
		err   error
	}{
		{"the worker itself", ours.issue("w2"), "w2", nil},
		{"another worker's certificate", ours.issue("w3"), "w2", errTLS},
		{"the right certificate and another name", ours.issue("w2", "w3"), "w3", errStranger},
	} {
		ln := must(net.Listen("tcp", "127.0.0.1:0"))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			other := greeter{self: tt.calls, epoch: 1, limits: caller.limits, ring: caller.ring}
			s := tls.Server(conn, tt.has)
			if s.Handshake() == nil {
				s.Write(appendHello(nil, other.hello("")))
				s.Read(make([]byte, 1000))
			}
		}()
		conn := must(net.Dial("tcp", ln.Addr().String()))
		l, err := caller.call(context.Background(), conn, "w2")
		if !errors.Is(err, tt.err) || (err == nil) != (l != nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		}
		conn.Close()
		ln.Close()
		<-ended
	}
}

// TestNoPlainPort: without TLS a worker neither listens nor dials beyond loopback, and half-hearted TLS is refused.
func TestNoPlainPort(t *testing.T) {
	ln := must(net.Listen("tcp", "0.0.0.0:0"))
	defer ln.Close()
	a := newAuthority(t)
	base := Config{Worker: "w1", Epoch: 1, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 1)), Listener: ln}
	if _, err := New(base); !errors.Is(err, errPlain) {
		t.Errorf("plain on all addresses: %v, want errPlain", err)
	}
	for name, spoil := range map[string]func(*tls.Config){
		"clients without certificate": func(c *tls.Config) { c.ClientAuth = tls.NoClientCert },
		"servers unverified":          func(c *tls.Config) { c.InsecureSkipVerify = true },
		"any public authority":        func(c *tls.Config) { c.RootCAs = nil },
		"for clients":                 func(c *tls.Config) { c.ClientCAs = nil },
		"an old version":              func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 },
	} {
		bad := base
		bad.TLS = a.issue("w1")
		spoil(bad.TLS)
		if _, err := New(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	base.TLS = a.issue("w1")
	if _, err := New(base); err != nil {
		t.Error(err)
	}
	far := greeter{self: "w1", epoch: 1, ring: func() uint64 { return 0 }}
	x, y := net.Pipe()
	defer y.Close()
	if _, err := far.call(context.Background(), x, "w2"); !errors.Is(err, errPlain) {
		t.Errorf("plain to what is not loopback: %v, want errPlain", err)
	}
	for name, files := range map[string][3]string{
		"no certificate": {"none", a.file("w1-key"), a.file("ca")},
		"another's key":  {a.file("w1"), a.file("ca"), a.file("ca")},
		"no authority":   {a.file("w1"), a.file("w1-key"), "none"},
		"not PEM":        {a.file("w1"), a.file("w1-key"), a.file("w1-key")},
	} {
		if _, err := LoadTLS(files[0], files[1], files[2]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCertificatesChange: a cluster that runs goes over to another authority. The links there are live on, new ones are made under the new certificates, and
// nobody with one of the old authority's comes in any more.
func TestCertificatesChange(t *testing.T) {
	p := egress(64<<20, 4<<20)
	old, next := newAuthority(t), newAuthority(t)
	c := newCluster(t, 2, func(c *Config) { c.TLS = old.issue(string(c.Worker)) }, p)
	stop := c.load(0, p.Limit(), 64<<10)
	c.more(p.Limit(), 4<<20, "use under the old authority")
	for _, w := range c.workers {
		check(t, w.node.SetTLS(next.issue(string(w.id))))
	}
	for _, w := range c.workers { // the links there are live on; these die
		w.cut(true)
		w.cut(false)
	}
	c.more(p.Limit(), 4<<20, "use under the new authority")
	w := c.workers[0]
	cfg := old.issue("w9")
	cfg.RootCAs = next.issue("w9").RootCAs
	cfg.ServerName = string(w.id)
	before := w.node.Status().Wire.RefusedTLS
	conn := tls.Client(knock(t, w, nil), cfg)
	conn.Write(appendHello(nil, goodHello(w, "w9")))
	farewell(t, conn)
	until(t, "the old authority is refused", func() bool { return w.node.Status().Wire.RefusedTLS > before })
	stop()
	c.judge()
	if err := w.node.SetTLS(&tls.Config{}); err == nil {
		t.Error("half-hearted TLS is taken")
	}
	if err := w.node.SetTLS(nil); err == nil {
		t.Error("plain is taken")
	}
}

// A writeCounter is a connection that counts the writes to it.
type writeCounter struct {
	net.Conn
	writes atomic.Int64
}

func (c *writeCounter) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestClosingSaysNothing: links are closed with locks held, and the last words of TLS wait for a peer that may not read.
func TestClosingSaysNothing(t *testing.T) {
	a := newAuthority(t)
	x, y := net.Pipe()
	defer y.Close()
	near := &writeCounter{Conn: x}
	mine, its := a.issue("w1"), a.issue("w2")
	mine.ServerName = "w2"
	conn := tls.Client(near, mine)
	shaken := make(chan error, 1)
	go func() { shaken <- tls.Server(y, its).Handshake() }()
	check(t, conn.Handshake())
	check(t, <-shaken)
	l := newLink(conn, &hello{worker: "w2", epoch: 1}, true, bufio.NewReader(conn))
	before := near.writes.Load()
	l.close(errEnding)
	if n := near.writes.Load() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
	if _, err := y.Read(make([]byte, 1)); err == nil {
		t.Error("the connection stays open")
	}
}
