// SPDX-License-Identifier: Apache-2.0

package sample

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Fill publishes modules, a provider and states on the server at the URL base, and requests two
// instances if the server can launch any. If transport is nil, it uses [http.DefaultTransport].
func (s *Server) Fill(ctx context.Context, base string, transport http.RoundTripper) error {
	if transport == nil {
		transport = http.DefaultTransport
	}
	f := filler{base: base, http: &http.Client{Transport: transport}, developer: s.People[0].Token, engineer: s.People[1].Token}
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	client, err := oci.New(u.Host, oci.Options{PlainHTTP: true, Transport: transport, Credential: func(context.Context, string, string) (oci.Credential, error) {
		return oci.Credential{Username: "okara", Password: f.engineer}, nil
	}})
	if err != nil {
		return err
	}
	f.depot = depot.New(depot.Options{Client: client})
	steps := []func(context.Context) error{f.publishModules, f.publishProvider, f.states}
	if s.launches {
		steps = append(steps, f.instances)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("fill the sample: %w", err)
		}
	}
	return nil
}

// filler publishes to one server.
type filler struct {
	base                string
	http                *http.Client
	depot               *depot.Depot
	developer, engineer string // tokens
}

// publishModules publishes the folders modules/NAMESPACE/NAME/SYSTEM/VERSION, and deprecates the
// first version of the network module.
func (f *filler) publishModules(ctx context.Context) error {
	found, err := fs.Glob(content, "content/modules/*/*/*/*")
	if err != nil {
		return err
	}
	for _, dir := range found { // sorted
		m, err := addr.ParseModule(strings.TrimPrefix(path.Dir(dir), "content/modules/"))
		if err != nil {
			return err
		}
		v, err := addr.ParseVersion(path.Base(dir))
		if err != nil {
			return err
		}
		tree, err := fs.Sub(content, dir)
		if err != nil {
			return err
		}
		if _, err := f.depot.PublishModule(ctx, tree, addr.ModuleVersion{Module: m, Version: v}, depot.ModuleOptions{}); err != nil {
			return err
		}
	}
	old, err := addr.ParseItem("acme/network/any")
	if err != nil {
		return err
	}
	_, _, err = f.depot.Announce(ctx, old, depot.Announcement{
		Action: evidence.ActionDeprecate, Version: "1.0.0", Message: "has no subnets", Replacement: "1.2.0", Actor: "ben",
	})
	return err
}

// publishProvider publishes packages without a real provider, signed with a key that is not stored.
func (f *filler) publishProvider(ctx context.Context) error {
	key, err := signing.NewKey(signing.KeyOptions{Name: "Sample, deleted when the server stops", ECC: true})
	if err != nil {
		return err
	}
	docs, err := fs.Sub(content, "content/provider/docs")
	if err != nil {
		return err
	}
	dist, done, err := files.TempDir("")
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	const version = "1.0.0"
	for _, platform := range []string{"darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64"} {
		b, err := zipText("terraform-provider-sample_v"+version, "#!/bin/sh\necho 'this provider is a sample and does nothing' >&2\nexit 1\n")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dist, "terraform-provider-sample_"+version+"_"+platform+".zip"), b, 0o600); err != nil {
			return err
		}
	}
	v, err := addr.ParseVersion(version)
	if err != nil {
		return err
	}
	_, err = f.depot.PublishProvider(ctx, os.DirFS(dist), addr.Provider{Namespace: "acme", Type: "sample"}, v, depot.ProviderOptions{SignKey: key, Docs: docs})
	return err
}

func zipText(name, text string) ([]byte, error) {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	h := &zip.FileHeader{Name: name, Method: zip.Deflate}
	h.SetMode(0o755)
	w, err := z.CreateHeader(h)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// states writes some versions of three workspaces, as the tools do.
func (f *filler) states(ctx context.Context) error {
	for _, s := range []struct {
		name   string
		values []string
	}{
		{"shop/default", []string{"small", "large"}},
		{"shop/staging", []string{"small", "small with a cache", "large"}},
		{"platform/default", []string{"one cluster"}},
	} {
		for i, value := range s.values {
			if err := f.postJSON(ctx, "/state/"+s.name, f.engineer, "", sampleState(s.name, i+1, value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sampleState returns a state (version 4 of its format) with one resource and one output.
func sampleState(name string, serial int, value string) any {
	attributes := map[string]any{
		"id": "sample", "input": map[string]any{"value": value, "type": "string"},
		"output": map[string]any{"value": value, "type": "string"}, "triggers_replace": nil,
	}
	return map[string]any{
		"version": 4, "terraform_version": "1.10.0", "serial": serial, "lineage": "sample-" + strings.ReplaceAll(name, "/", "-"),
		"outputs": map[string]any{"size": map[string]any{"value": value, "type": "string"}},
		"resources": []any{map[string]any{
			"mode": "managed", "type": "terraform_data", "name": "size", "provider": `provider["terraform.io/builtin/terraform"]`,
			"instances": []any{map[string]any{"schema_version": 0, "attributes": attributes, "sensitive_attributes": []any{}}},
		}},
	}
}

// instances requests, as the developer, a greeting, which is created at once, and a
// network, which requires approval.
func (f *filler) instances(ctx context.Context) error {
	for _, body := range []map[string]any{
		{"template": "sandbox/greeting", "name": "first try", "parameters": map[string]any{"name": "world", "language": "fr"}},
		{
			"template": "sandbox/network", "name": "for the demo on Friday", "reason": "We show the shop to a customer.",
			"parameters": map[string]any{"cidr": "10.1.0.0/16", "subnets": []any{map[string]any{"name": "web", "public": true}}},
		},
	} {
		if err := f.postJSON(ctx, "/api/v1/instances", f.developer, "application/json", body); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long a server that has just started may refuse to launch, because it is
// not the leader yet or has not read its templates.
const patience = time.Minute

// postJSON sends JSON with a token. It repeats the request if the server is not ready yet.
func (f *filler) postJSON(ctx context.Context, to, token, mediaType string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; {
		status, answer, err := f.send(ctx, to, token, mediaType, b)
		if err != nil {
			return err
		}
		if status < 300 {
			return nil
		}
		// The server may not be the leader yet, or may have read the templates before the
		// modules existed.
		again := status == http.StatusServiceUnavailable || status == http.StatusNotFound ||
			status == http.StatusConflict && strings.Contains(string(answer), `"paused"`)
		if !again || time.Now().After(end) {
			return fmt.Errorf("POST %s: %s: %s", to, http.StatusText(status), text.Excerpt(string(answer)))
		}
		if err := text.Wait(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (f *filler) send(ctx context.Context, to, token, mediaType string, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+to, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	a, err := f.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(a.Body, 4<<10))
	return a.StatusCode, answer, err
}
