// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/plugincache"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// openRepo opens a repository, HOST/PATH, of the order's registry.
func openRepo(o *sandbox.Order, name, userAgent string) (*oci.Repo, error) {
	r := o.Registry
	t := httpserve.TransportOptions{ClientCert: r.ClientCert, ClientKey: r.ClientKey, CertDirs: r.CertDirs, Insecure: r.Insecure}
	if r.Socket != "" {
		t.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", r.Socket)
		}
	}
	transport, err := openTransport(o, t, "registry-ca.pem", r.CA)
	if err != nil {
		return nil, err
	}
	if host, _, _ := strings.Cut(r.Prefix, "/"); !strings.HasPrefix(name, host+"/") {
		return nil, fmt.Errorf("repository %s is not in the registry of the run", name)
	}
	c := oci.Credential{Username: r.Username, Password: r.Password, RegistryToken: r.Token}
	return oci.OpenRepo(name, oci.Options{
		Transport: transport, PlainHTTP: r.PlainHTTP, SinglePost: r.BuiltIn, UserAgent: userAgent, Actions: []string{"pull", "push", "delete"},
		Credential: func(context.Context, string, string) (oci.Credential, error) { return c, nil },
	})
}

// openTransport returns a transport that trusts a CA, if there is one; it is kept in a file.
func openTransport(o *sandbox.Order, t httpserve.TransportOptions, file string, ca []byte) (http.RoundTripper, error) {
	if len(ca) > 0 {
		t.CAFile = filepath.Join(o.Scratch, file)
		if err := os.WriteFile(t.CAFile, ca, 0o600); err != nil {
			return nil, err
		}
	}
	return httpserve.Transport(t)
}

// openPackages opens the shared package cache, and the server that decides, by the run's token,
// what this run may use from it.
func openPackages(c *child) (plugincache.Cache, plugincache.Source, error) {
	o := &c.Order
	cache, err := plugincache.New(o.Packages.Dir)
	if err != nil {
		return cache, nil, err
	}
	base, err := url.Parse(o.Server.URL)
	if err != nil {
		return cache, nil, err
	}
	transport, err := openTransport(o, httpserve.TransportOptions{}, "server-ca.pem", o.Server.CA)
	if err != nil {
		return cache, nil, err
	}
	client := &upstream.Client{HTTP: &http.Client{Transport: transport}, UserAgent: c.UserAgent, Token: func(host string) string {
		if host == base.Host {
			return o.Server.Token
		}
		return ""
	}}
	mirror := upstream.NetworkMirror{Client: client, Base: base.JoinPath("mirror/")}
	return cache.Within(o.Packages.Max), serverPackages{mirror, frontEnd(o.Server), base}, nil
}

// serverPackages is a server, with its mirror, as a source of providers: it decides about rights.
type serverPackages struct {
	upstream.NetworkMirror
	server frontEnd
	at     *url.URL
}

// Package implements [plugincache.Source].
func (s serverPackages) Package(ctx context.Context, p addr.Provider, v addr.Version, t addr.Platform) (upstream.Package, error) {
	switch {
	case slices.Contains(s.server.serverNames(s.at), p.Hostname):
		p.Hostname = s.server.Host
	case !s.server.mirrors(s.at) || s.server.Hosts != nil && !slices.Contains(s.server.Hosts, p.Hostname):
		return upstream.Package{}, fmt.Errorf("provider %s is not from this server: %w", p, oci.ErrNotFound)
	}
	return s.NetworkMirror.Package(ctx, p, v, t)
}

// sealerOf returns the envelope for the order's state keys; nil without any.
func sealerOf(o *sandbox.Order) (*envelope.Envelope, error) {
	keys := strings.Fields(o.StateKeys)
	if len(keys) == 0 {
		return nil, nil
	}
	return envelope.New(envelope.Options{Keys: keys})
}

// secretsOf returns the values that must not appear in logs.
func secretsOf(o *sandbox.Order) []string {
	list := append([]string{o.Registry.Password, o.Registry.Token, o.Server.Token}, o.Masked...)
	list = append(list, strings.Fields(o.StateKeys)...)
	list = slices.AppendSeq(list, maps.Values(o.Environment))
	for _, b := range o.Files {
		list = append(list, string(b))
	}
	for _, name := range o.Spec.Sensitive {
		list = append(list, jsonTexts(o.Spec.Variables[name])...)
	}
	return list
}

func jsonTexts(raw json.RawMessage) []string {
	var list []string
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	for {
		t, err := d.Token()
		if err != nil {
			return list
		}
		switch t := t.(type) {
		case string:
			list = append(list, t)
		case json.Number:
			list = append(list, t.String())
		}
	}
}

// ReadOrder decodes and checks the order on the child's standard input. Errors show nothing of it.
func ReadOrder(b []byte) (sandbox.Order, error) {
	var o sandbox.Order
	if err := json.Unmarshal(b, &o); err != nil {
		return o, errors.New("no run description on standard input") // the decoder's error may contain secrets
	}
	if len(o.Ask) > 0 && o.Scratch != "" && o.Program != "" {
		return o, nil
	}
	needed := []string{o.Scratch, o.Program, o.Spec.Repository, o.Spec.Workspace, o.Spec.Ref.Nonce}
	if slices.Contains(needed, "") {
		return o, errors.New("the run description lacks the scratch folder, program, repository, workspace or nonce")
	}
	return o, nil
}
