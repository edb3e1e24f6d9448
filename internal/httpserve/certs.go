// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// perHost uses the certificates of Docker and Podman for a host, in HOST[:PORT] of certs.d, else
// the common settings (https://docs.docker.com/engine/security/certificates/).
type perHost struct {
	common *http.Transport
	dirs   []string

	mu    sync.Mutex // guards hosts
	hosts map[string]hostTransport
}

type hostTransport struct {
	t   *http.Transport
	err error
}

func (p *perHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" || len(p.dirs) == 0 {
		return p.common.RoundTrip(r)
	}
	h := p.host(r.URL.Host)
	if h.err != nil {
		if r.Body != nil {
			r.Body.Close() // a RoundTripper has to close the body
		}
		return nil, h.err
	}
	return h.t.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of all hosts.
func (p *perHost) CloseIdleConnections() {
	p.common.CloseIdleConnections()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hosts {
		if h.t != nil {
			h.t.CloseIdleConnections()
		}
	}
}

// host reads the folders once per host and process.
func (p *perHost) host(name string) hostTransport {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, ok := p.hosts[name]; ok {
		return h
	}
	h := hostTransport{t: p.common}
	config, err := hostTLS(p.common.TLSClientConfig, p.dirs, name)
	switch {
	case err != nil:
		h = hostTransport{err: fmt.Errorf("certificates for %s: %w", name, err)}
	case config != nil:
		h.t = p.common.Clone()
		h.t.TLSClientConfig = config
	}
	p.hosts[name] = h
	return h
}

// hostTLS returns common with the folders' certificates: *.crt to trust, NAME.cert with NAME.key to
// show; nil without any.
func hostTLS(common *tls.Config, dirs []string, host string) (*tls.Config, error) {
	if host == "." || !filepath.IsLocal(host) {
		return nil, nil // a redirect may lead to any name, and these are no folder names
	}
	var config *tls.Config
	for _, dir := range dirs {
		files, err := os.ReadDir(filepath.Join(dir, host))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if config == nil {
			config = common.Clone()
		}
		for _, f := range files {
			if err := addFile(config, filepath.Join(dir, host, f.Name())); err != nil {
				return nil, err
			}
		}
	}
	return config, nil
}

func addFile(config *tls.Config, name string) error {
	switch filepath.Ext(name) {
	case ".crt":
		return trustFile(config, name)
	case ".cert":
		pair, err := tls.LoadX509KeyPair(name, strings.TrimSuffix(name, ".cert")+".key")
		if err != nil {
			return err
		}
		config.Certificates = append(config.Certificates, pair)
	}
	return nil
}

// trustFile adds the certificates of a PEM file to those that are trusted.
func trustFile(config *tls.Config, name string) error {
	pem, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	roots := config.RootCAs
	if roots == nil {
		if roots, err = x509.SystemCertPool(); err != nil {
			roots = x509.NewCertPool()
		}
	} else {
		roots = roots.Clone()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s: no PEM certificate in it", name)
	}
	config.RootCAs = roots
	return nil
}

// CertDirs returns where Docker and Podman keep certificates per registry.
func CertDirs(getenv func(string) string) []string {
	if runtime.GOOS == "windows" {
		return []string{filepath.Join(getenv("ProgramData"), "docker", "certs.d")}
	}
	list := []string{"/etc/docker/certs.d", "/etc/containers/certs.d"}
	own := getenv("XDG_CONFIG_HOME")
	if home := getenv("HOME"); own == "" && home != "" {
		own = filepath.Join(home, ".config")
	}
	if own != "" {
		list = append(list, filepath.Join(own, "docker", "certs.d"), filepath.Join(own, "containers", "certs.d"))
	}
	return list
}
