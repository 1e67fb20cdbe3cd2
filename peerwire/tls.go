package peerwire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// LoadTLS makes the TLS settings of a peer port from three PEM files: this worker's certificate and key, and the authority that has signed those of all
// workers. Both sides of a connection show a certificate, and its DNS names must have the worker's id.
func LoadTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("peer certificate: %w", err)
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("peer authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("peer authority: %s has no certificate in PEM", caFile)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true, // connections live for days
	}, nil
}

// checkTLS refuses settings that would let a stranger in.
func checkTLS(c *tls.Config) error {
	switch {
	case c.InsecureSkipVerify || c.ClientAuth != tls.RequireAndVerifyClientCert:
		return errors.New("peer TLS: both sides must verify each other")
	case c.RootCAs == nil || c.ClientCAs == nil:
		return errors.New("peer TLS: without an authority of its own any public certificate would do")
	case c.MinVersion < tls.VersionTLS13:
		return errors.New("peer TLS: want version 1.3 or later")
	}
	return nil
}
