package coordinator

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// ClientTLS makes the TLS settings of an etcd client from PEM files: the authority of the cluster's certificates, and, where the cluster asks for one, this
// client's certificate and key ("" for none).
func ClientTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM", caFile)
	}
	switch {
	case certFile == "" && keyFile == "":
		return c, nil
	case certFile == "" || keyFile == "":
		return nil, errors.New("a client certificate needs its key, and a key its certificate")
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{cert}
	return c, nil
}
