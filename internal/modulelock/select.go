// SPDX-License-Identifier: Apache-2.0

package modulelock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/syntax"
)

const (
	modulesService = "modules.v1"
	maxAnswer      = 32 << 20 // bytes of an answer of a registry, and of a CLI configuration
	registryWait   = 5 * time.Minute
	discoveryWait  = 10 * time.Second // as the tools
)

// selection answers for the module registries of a lock while init runs: lists of versions have only the
// locked ones of a package that is in the lock, all else is passed on. The tool sends its credentials for
// the registry's host itself.
type selection struct {
	lock   *File
	hosts  map[string]map[string]*url.URL // their services
	client *http.Client
	note   func(source, version, why string)
}

// ReadConfig returns the CLI configuration of some files, those that win first.
func ReadConfig(names []string) (text []byte, err error) {
	for _, name := range slices.Backward(names) { // of two settings the tools take the last
		b, err := files.ReadLimited(name, maxAnswer)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && strings.HasSuffix(name, ".json") {
			b, err = loginBlocks(b)
		}
		if err != nil {
			return nil, fmt.Errorf("the CLI configuration %s cannot be extended: %w", name, err)
		}
		text = append(append(text, b...), '\n')
	}
	return text, nil
}

// Select starts a selection. It returns the CLI configuration text for it, with other services of the
// registries' hosts, nil if there is nothing to select, and the hosts that are left out. note is called, also at
// once, with what a list of versions says against a locked one, "" for nothing, if init reads it; nil: it is not.
func (f *File) Select(ctx context.Context, via http.RoundTripper, text []byte, note func(source, version, why string)) (config []byte, skipped []error, stop func() error, err error) {
	stop = func() error { return nil }
	s := &selection{lock: f, hosts: map[string]map[string]*url.URL{}, client: &http.Client{Transport: via, Timeout: registryWait}, note: note}
	user, diags := syntax.ParseBody(text, "CLI configuration")
	if diags.HasErrors() && bytes.Contains(bytes.ToLower(text), []byte("host")) {
		return nil, nil, stop, fmt.Errorf("the CLI configuration cannot be extended: %w", syntax.Wrong(diags))
	}
	if diags.HasErrors() { // the tools read an older language, such as names in quotation marks
		user = &hclsyntax.Body{}
	}
	for _, p := range f.Packages {
		host, _, _ := strings.Cut(p.Source, "/")
		if _, known := s.hosts[host]; known || !p.IsRegistry() {
			continue
		}
		services, err := s.findServices(ctx, host, user)
		if err != nil {
			skipped = append(skipped, err)
		}
		s.hosts[host] = services
	}
	maps.DeleteFunc(s.hosts, func(_ string, services map[string]*url.URL) bool { return services == nil })
	if len(s.hosts) == 0 {
		return nil, skipped, stop, nil
	}
	server, err := httpserve.Listen(httpserve.Options{Addr: "127.0.0.1:0", Handler: s, Drain: time.Second})
	if err != nil {
		return nil, skipped, stop, err
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	var served error
	done.Go(func() { served = server.Serve(serving) })
	stop = func() error { end(); done.Wait(); return served }
	for _, b := range slices.Backward(user.Blocks) { // from the end, so that earlier ranges stay valid
		if slices.ContainsFunc(slices.Collect(maps.Keys(s.hosts)), func(host string) bool { return isHost(b, host) }) {
			text = slices.Delete(text, b.Range().Start.Byte, b.Range().End.Byte)
		}
	}
	own := hclwrite.NewEmptyFile()
	for host, services := range s.hosts {
		values := map[string]cty.Value{}
		for id, u := range services {
			values[id] = cty.StringVal(u.String())
		}
		values[modulesService] = cty.StringVal(server.URL() + "/" + host + "/")
		own.Body().AppendNewBlock("host", []string{host}).Body().SetAttributeValue("services", cty.MapVal(values))
	}
	return append(text, own.Bytes()...), skipped, stop, nil
}

// IsRegistry reports whether the source is the address of a module in a registry, with its host.
func (p Package) IsRegistry() bool {
	return strings.Count(p.Source, "/") == 3 && !strings.Contains(p.Source, "://")
}

// findServices returns the services of a host, from the CLI configuration or its discovery document:
// https://developer.hashicorp.com/terraform/internals/remote-service-discovery
func (s *selection) findServices(ctx context.Context, host string, config *hclsyntax.Body) (map[string]*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryWait)
	defer cancel()
	found := map[string]string{}
	base := &url.URL{Scheme: "https", Host: host, Path: "/.well-known/terraform.json"}
	for _, b := range config.Blocks {
		if !isHost(b, host) || b.Body.Attributes["services"] == nil {
			continue
		}
		v, diags := b.Body.Attributes["services"].Expr.Value(nil)
		if diags.HasErrors() || !v.CanIterateElements() {
			return nil, fmt.Errorf("the services of host %q in the CLI configuration cannot be read", host)
		}
		for id, u := range v.AsValueMap() {
			if u.Type() == cty.String && !u.IsNull() {
				found[id] = u.AsString()
			}
		}
	}
	for _, scheme := range []string{"https", "http"} {
		if len(found) > 0 || scheme == "http" && !netaddr.IsLoopback(host) {
			break
		}
		base.Scheme = scheme
		status, from, _, b, err := s.sendOn(ctx, base, nil)
		var document map[string]json.RawMessage
		if err != nil || status != http.StatusOK || json.Unmarshal(b, &document) != nil {
			continue
		}
		base = from // relative addresses are from where a redirect led to
		for id, raw := range document {
			var u string
			if json.Unmarshal(raw, &u) == nil { // others are objects, which a CLI configuration cannot have
				found[id] = u
			}
		}
	}
	all := map[string]*url.URL{}
	for id, ref := range found {
		if u, err := base.Parse(ref); err == nil {
			all[id] = u
		}
	}
	u := all[modulesService]
	if u == nil {
		return nil, fmt.Errorf("%s has no module registry", host)
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return all, nil
}

// sendOn sends a request on; header may be nil.
func (s *selection) sendOn(ctx context.Context, u *url.URL, header http.Header) (status int, from *url.URL, answer http.Header, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, nil, nil, nil, err
	}
	for _, name := range []string{"Authorization", "User-Agent", "Accept", "X-Terraform-Version"} {
		if v := header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("the response has more than %d MiB", maxAnswer>>20)
	}
	return resp.StatusCode, resp.Request.URL, resp.Header, b, err
}

// ServeHTTP implements http.Handler. A path is /HOST/ and what follows the base of its protocol.
func (s *selection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	base := s.hosts[host][modulesService]
	if base == nil || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	u, err := base.Parse("./" + rest)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	u.RawQuery = r.URL.RawQuery
	status, _, header, body, err := s.sendOn(r.Context(), u, r.Header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	module, isList := strings.CutSuffix(rest, "/versions")
	var document map[string]json.RawMessage // as OpenTofu takes it too: https://opentofu.org/docs/internals/module-registry-protocol
	var location string
	switch {
	case isList && status == http.StatusOK:
		body, err = s.cutVersions(host+"/"+module, body)
	case status == http.StatusOK && json.Unmarshal(body, &document) == nil && json.Unmarshal(document["location"], &location) == nil && location != "":
		if abs, parseErr := u.Parse(location); parseErr == nil && document["use_registry_credentials"] != nil { // an address, not a source
			location = abs.String()
		}
		if document["location"], err = json.Marshal(absoluteFrom(u, location)); err == nil {
			body, err = json.Marshal(document)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	for _, name := range []string{"X-Terraform-Get", "Location"} {
		if at := header.Get(name); at != "" {
			w.Header().Set(name, absoluteFrom(u, at))
		}
	}
	for _, name := range []string{"Content-Type", "Www-Authenticate", "Retry-After", "Warning"} {
		if v := header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the tool is gone
}

// absoluteFrom makes a relative location absolute, as the tools do: only one that begins with /, ./ or ../.
func absoluteFrom(u *url.URL, at string) string {
	if strings.HasPrefix(at, "/") || strings.HasPrefix(at, "./") || strings.HasPrefix(at, "../") {
		if abs, err := u.Parse(at); err == nil {
			return abs.String()
		}
	}
	return at
}

// cutVersions leaves the locked versions of a module, if the lock has the module.
func (s *selection) cutVersions(source string, list []byte) ([]byte, error) {
	var locked []string
	for _, p := range s.lock.Packages {
		if p.Source == source {
			locked = append(locked, canonicalVersion(p.Version))
		}
	}
	if locked == nil {
		return list, nil
	}
	var answer struct {
		Modules []struct {
			Source   string            `json:"source,omitempty"`
			Versions []json.RawMessage `json:"versions"`
		} `json:"modules"`
	}
	if err := json.Unmarshal(list, &answer); err != nil {
		return nil, fmt.Errorf("the versions of %s: %w", source, err)
	}
	for i := range answer.Modules {
		answer.Modules[i].Versions = slices.DeleteFunc(answer.Modules[i].Versions, func(raw json.RawMessage) bool {
			var v struct{ Version, Deprecated string }
			if json.Unmarshal(raw, &v) != nil || !slices.Contains(locked, canonicalVersion(v.Version)) {
				return true
			}
			if s.note != nil {
				s.note(source, canonicalVersion(v.Version), v.Deprecated)
			}
			return false
		})
	}
	return json.Marshal(answer)
}

// canonicalVersion returns a version as the tools write it, who take v1.0 for 1.0.0.
func canonicalVersion(s string) string {
	core, rest := strings.TrimPrefix(s, "v"), ""
	if i := strings.IndexAny(core, "-+"); i >= 0 {
		core, rest = core[:i], core[i:]
	}
	for strings.Count(core, ".") < 2 {
		core += ".0"
	}
	return core + rest
}

// isHost reports whether a block of a CLI configuration is about a host.
func isHost(b *hclsyntax.Block, host string) bool {
	return b.Type == "host" && len(b.Labels) == 1 && strings.EqualFold(b.Labels[0], host)
}

// loginBlocks returns the credentials that login stores in a file of JSON, as blocks.
func loginBlocks(file []byte) ([]byte, error) {
	var logins struct {
		Credentials map[string]map[string]string `json:"credentials"`
	}
	d := json.NewDecoder(bytes.NewReader(file))
	if d.DisallowUnknownFields(); d.Decode(&logins) != nil {
		return nil, errors.New("it is in JSON, and contains more than credentials")
	}
	out := hclwrite.NewEmptyFile()
	for host, values := range logins.Credentials {
		b := out.Body().AppendNewBlock("credentials", []string{host}).Body()
		for name, value := range values {
			b.SetAttributeValue(name, cty.StringVal(value))
		}
	}
	return out.Bytes(), nil
}
