// SPDX-License-Identifier: Apache-2.0

package plangate

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/httpserve"
)

// Certificates is a folder with tls.crt, tls.key, and ca.crt of callers, as of cert-manager.
// Changes count from the next connection.
type Certificates string

// Config requires callers' certificates. It returns an error if files are missing or invalid.
func (c Certificates) Config() (*tls.Config, error) {
	if _, err := c.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.load() },
	}, nil
}

func (c Certificates) load() (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(c.filePath("tls.crt"), c.filePath("tls.key"))
	if err != nil {
		return nil, fmt.Errorf("the certificate of the plan gate: %w", err)
	}
	authority, err := os.ReadFile(c.filePath("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("the client CA of the plan gate: %w", err)
	}
	callers := x509.NewCertPool()
	if !callers.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("the client CA of the plan gate: %s has no certificate", c.filePath("ca.crt"))
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: callers,
		NextProtos: []string{"h2", "http/1.1"},
	}, nil
}

// Key is the digests' key, equal on replicas with these certificates.
func (c Certificates) Key() ([]byte, error) {
	secret, err := os.ReadFile(c.filePath("tls.key"))
	if err != nil {
		return nil, fmt.Errorf("the key of the plan gate: %w", err)
	}
	return hkdf.Key(sha256.New, secret, nil, "okara plan gate", sha256.Size)
}

func (c Certificates) filePath(name string) string { return filepath.Join(string(c), name) }

// Server is the HTTPS server of a gate, as a part of a manager.
type Server struct{ server *httpserve.Server }

// Listen opens the port of a gate.
func Listen(address string, c Certificates, cluster client.Client, log *slog.Logger) (*Server, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	s, err := httpserve.Listen(httpserve.Options{
		Addr: address, TLS: config, Handler: New(cluster, c.Key, log), Logger: log, Drain: 30 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &Server{s}, nil
}

// Addr returns the HOST:PORT of the listener.
func (s *Server) Addr() string { return s.server.Addr() }

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error { return s.server.Serve(ctx) }

// NeedLeaderElection returns false: each replica answers.
func (s *Server) NeedLeaderElection() bool { return false }
