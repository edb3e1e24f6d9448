// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/registry"
)

// serveConfig is the configuration file of okara serve. A flag that is given
// wins over the attribute of the same name.
type serveConfig struct {
	Listen    string `hcl:"listen,optional"`
	Metrics   string `hcl:"metrics_listen,optional"`
	Storage   string `hcl:"storage,optional"`
	Registry  string `hcl:"registry,optional"`
	Hostname  string `hcl:"hostname,optional"`
	BasePath  string `hcl:"base_path,optional"`
	PublicURL string `hcl:"public_url,optional"`
	AuditLog  string `hcl:"audit_log,optional"`
	AccessLog bool   `hcl:"access_log,optional"`
	Hide      *bool  `hcl:"denied_means_missing,optional"`
	Pass      bool   `hcl:"pass_through,optional"`

	Depot          string    `hcl:"depot,optional"`
	UsedBy         []string  `hcl:"used_by,optional"`
	AllowInternal  []string  `hcl:"allow_internal,optional"`
	Grace          string    `hcl:"grace,optional"`
	GraceRange     hcl.Range `hcl:"grace,attr_value_range"`
	Drain          string    `hcl:"drain,optional"`
	DrainRange     hcl.Range `hcl:"drain,attr_value_range"`
	Anonymous      []string  `hcl:"anonymous,optional"`
	AnonymousRange hcl.Range `hcl:"anonymous,attr_value_range"`
	RevokedKeys    []string  `hcl:"revoked_keys,optional"`
	RevokedRange   hcl.Range `hcl:"revoked_keys,attr_value_range"`
	Proxies        []string  `hcl:"proxies,optional"`
	ProxiesRange   hcl.Range `hcl:"proxies,attr_value_range"`

	TLS      *tlsConfig      `hcl:"tls,block"`
	Layout   *layoutConfig   `hcl:"layout,block"`
	Modules  *modulesConfig  `hcl:"modules,block"`
	Archives *archivesConfig `hcl:"archives,block"`
	Cache    *cacheConfig    `hcl:"cache,block"`
	GC       *gcConfig       `hcl:"gc,block"`
	Tokens   []tokenConfig   `hcl:"token,block"`
	Issuers  []issuerConfig  `hcl:"issuer,block"`
	Rules    []ruleConfig    `hcl:"rule,block"`
	Login    *loginConfig    `hcl:"login,block"`
	GitHub   []githubConfig  `hcl:"github,block"`
	Hooks    []hookConfig    `hcl:"hook,block"`
	Require  []requireConfig `hcl:"require,block"`
	Pulls    []pullConfig    `hcl:"pull_through,block"`
}

type tlsConfig struct {
	Cert       string    `hcl:"cert,optional"`
	Key        string    `hcl:"key,optional"`
	SelfSigned bool      `hcl:"self_signed,optional"`
	Range      hcl.Range `hcl:",def_range"`
}

type layoutConfig struct {
	Modules   string    `hcl:"modules,optional"`
	Providers string    `hcl:"providers,optional"`
	Mirror    string    `hcl:"mirror,optional"`
	State     string    `hcl:"state,optional"`
	Primary   string    `hcl:"state_primary,optional"`
	Catalog   string    `hcl:"catalog,optional"`
	Queue     string    `hcl:"queue,optional"`
	Range     hcl.Range `hcl:",def_range"`
}

type modulesConfig struct {
	Answer   string `hcl:"answer,optional"`
	Registry string `hcl:"registry,optional"`
}

type archivesConfig struct {
	TTL       string    `hcl:"ttl,optional"`
	Redirect  string    `hcl:"redirect,optional"`
	StreamFor []string  `hcl:"stream_for,optional"`
	KeyFiles  []string  `hcl:"key_files,optional"`
	Range     hcl.Range `hcl:",def_range"`
}

type cacheConfig struct {
	TagTTL string    `hcl:"tag_ttl,optional"`
	Blobs  string    `hcl:"blobs,optional"`
	Dir    string    `hcl:"dir,optional"`
	Range  hcl.Range `hcl:",def_range"`
}

type tokenConfig struct {
	ID      string    `hcl:"id,label"`
	SHA256  string    `hcl:"sha256"`
	Scopes  []string  `hcl:"scopes"`
	Expires string    `hcl:"expires,optional"`
	Range   hcl.Range `hcl:",def_range"`
}

type issuerConfig struct {
	URL         string    `hcl:"url,label"`
	Audiences   []string  `hcl:"audiences"`
	GroupsClaim string    `hcl:"groups_claim,optional"`
	Range       hcl.Range `hcl:",def_range"`
}

type ruleConfig struct {
	Name   string            `hcl:"name,label"`
	Issuer string            `hcl:"issuer,optional"`
	Groups []string          `hcl:"groups,optional"`
	Claims map[string]string `hcl:"claims,optional"`
	Allow  []string          `hcl:"allow"`
	Range  hcl.Range         `hcl:",def_range"`
}

type requireConfig struct {
	Kind    string    `hcl:"kind,label"`
	Checks  []string  `hcl:"checks,optional"`
	OpenPGP []string  `hcl:"openpgp_keys,optional"`
	Cosign  []string  `hcl:"cosign_keys,optional"`
	Block   string    `hcl:"block,optional"`
	Range   hcl.Range `hcl:",def_range"`
}

type loginConfig struct {
	Mode        string    `hcl:"mode,optional"`
	Issuer      string    `hcl:"issuer"`
	ClientID    string    `hcl:"client_id"`
	SecretFile  string    `hcl:"client_secret_file,optional"`
	Scopes      []string  `hcl:"scopes,optional"`
	GroupsClaim string    `hcl:"groups_claim,optional"`
	TokenTTL    string    `hcl:"token_ttl,optional"`
	NotBefore   string    `hcl:"not_before,optional"`
	Range       hcl.Range `hcl:",def_range"`
}

// readServeConfig parses the file. Errors name file and line.
func readServeConfig(file string) (*serveConfig, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	var c serveConfig
	diags := syntax.Decode(src, file, &c)
	if !diags.HasErrors() {
		return &c, nil
	}
	var all []error
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			all = append(all, fmt.Errorf("%s: %s", position(d.Subject), strings.TrimSuffix(d.Detail, ".")))
		}
	}
	return nil, &exitError{code: exitUsage, err: errors.Join(all...)}
}

func position(r *hcl.Range) string {
	if r == nil {
		return "configuration"
	}
	return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line)
}

func configError(r hcl.Range, err error) error {
	return usageError("%s: %w", position(&r), err)
}

// flags fills in what the command line leaves open.
func (c *serveConfig) flags(f *serveFlags, given func(flag string) bool) error {
	text := func(flag, value string, to *string) {
		if value != "" && !given(flag) {
			*to = value
		}
	}
	text("listen", c.Listen, &f.listen)
	text("metrics-listen", c.Metrics, &f.metricsListen)
	text("depot", c.Depot, &f.depot.file)
	if !given("used-by") {
		f.depot.usedBy = c.UsedBy
	}
	if err := errors.Join(
		duration(c.GraceRange, "grace", c.Grace, given("grace"), &f.grace),
		duration(c.DrainRange, "drain", c.Drain, given("drain"), &f.drain),
	); err != nil {
		return err
	}
	text("storage", c.Storage, &f.storage)
	text("registry", c.Registry, &f.registry)
	text("hostname", c.Hostname, &f.hostname)
	text("base-path", c.BasePath, &f.basePath)
	text("audit-log", c.AuditLog, &f.auditLog)
	f.passThrough = f.passThrough || c.Pass && !given("pass-through")
	if c.TLS != nil && !given("tls-cert") && !given("tls-self-signed") {
		f.tlsCert, f.tlsKey, f.selfSigned = c.TLS.Cert, c.TLS.Key, c.TLS.SelfSigned
		if (f.tlsCert == "") != (f.tlsKey == "") || f.selfSigned == (f.tlsCert != "") {
			return configError(c.TLS.Range, errors.New("tls needs cert and key, or self_signed = true"))
		}
	}
	if a := c.Archives; a != nil {
		text("archive-redirect", a.Redirect, &f.redirect)
		if err := duration(a.Range, "ttl", a.TTL, given("archive-ttl"), &f.archiveTTL); err != nil {
			return err
		}
	}
	if k := c.Cache; k != nil {
		text("cache-dir", k.Dir, &f.cacheDir)
		if k.Blobs != "" && !given("cache-blobs") {
			if err := f.cacheBlobs.Set(k.Blobs); err != nil {
				return configError(k.Range, fmt.Errorf("blobs %w", err))
			}
		}
		if err := duration(k.Range, "tag_ttl", k.TagTTL, given("tag-ttl"), &f.tagTTL); err != nil {
			return err
		}
	}
	return c.GC.flags(f, given)
}

func duration(at hcl.Range, name, value string, given bool, to *time.Duration) error {
	if value == "" || given {
		return nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return configError(at, fmt.Errorf("%s %q is not a duration such as \"4h\" or \"30s\"", name, value))
	}
	*to = d
	return nil
}

// options fills in what no flag says.
func (c *serveConfig) options(o *registry.Options) (err error) {
	if o.Access.Anonymous == nil && c.Anonymous != nil {
		if o.Access.Anonymous, err = scopes(c.AnonymousRange, c.Anonymous); err != nil {
			return err
		}
	}
	if o.Proxies, err = prefixes(c.ProxiesRange, c.Proxies); err != nil {
		return err
	}
	if o.Revoked, err = registry.ParseRevokedKeys(c.RevokedKeys); err != nil {
		return configError(c.RevokedRange, err)
	}
	if c.Hide != nil {
		o.DeniedMeansMissing = *c.Hide
	}
	if m := c.Modules; m != nil {
		o.Modules = registry.Modules{Answer: m.Answer, Registry: m.Registry}
	}
	o.PublicURL = c.PublicURL
	if err := c.layout(&o.Layout); err != nil {
		return err
	}
	if err := c.archives(&o.Archives); err != nil {
		return err
	}
	if err := c.access(&o.Access); err != nil {
		return err
	}
	if o.Require, err = c.require(); err != nil {
		return err
	}
	o.Login, err = c.login()
	return err
}

// require reads what versions must fulfil to be served, by kind.
func (c *serveConfig) require() (map[string]depot.VerifyOptions, error) {
	all := map[string]depot.VerifyOptions{}
	for _, r := range c.Require {
		if _, ok := all[r.Kind]; ok {
			return nil, configError(r.Range, fmt.Errorf("a second block require %q", r.Kind))
		}
		flags := policyFlags{openpgp: r.OpenPGP, cosign: r.Cosign, require: r.Checks, block: r.Block}
		o, err := flags.read()
		if o == nil {
			o = &depot.VerifyOptions{}
		}
		if err == nil {
			err = registry.ValidateRequire(r.Kind, *o)
		}
		if err != nil {
			return nil, configError(r.Range, err)
		}
		all[r.Kind] = *o
	}
	return all, nil
}

func (c *serveConfig) layout(to *addr.Layout) error {
	l := c.Layout
	if l == nil {
		return nil
	}
	*to = addr.Layout{
		Prefix: to.Prefix, Modules: l.Modules, Providers: l.Providers, Mirror: l.Mirror, State: l.State, StatePrimary: l.Primary, Catalog: l.Catalog, Queue: l.Queue,
	}
	if err := to.Validate(); err != nil {
		return configError(l.Range, err)
	}
	return nil
}

// archives reads the keys of links: the first file signs, all are good.
func (c *serveConfig) archives(to *registry.Archives) (err error) {
	a := c.Archives
	if a == nil {
		return nil
	}
	if len(a.KeyFiles) > 0 {
		to.Keys = nil
	}
	for _, file := range a.KeyFiles {
		key, err := readArchiveKey(file)
		if err != nil {
			return configError(a.Range, err)
		}
		to.Keys = append(to.Keys, key)
	}
	to.StreamFor, err = prefixes(a.Range, a.StreamFor)
	return err
}

func (c *serveConfig) access(to *registry.Policy) error {
	for _, t := range c.Tokens {
		b, err := hex.DecodeString(t.SHA256)
		if err != nil || len(b) != 32 {
			return configError(t.Range, errors.New("sha256 is not 64 hexadecimal digits; it is the hash of the whole token"))
		}
		token := registry.Token{ID: t.ID, Hash: [32]byte(b)}
		if token.Scopes, err = scopes(t.Range, t.Scopes); err != nil {
			return err
		}
		if token.Expires, err = instant(t.Range, "expires", t.Expires); err != nil {
			return err
		}
		to.Tokens = append(to.Tokens, token)
	}
	for _, i := range c.Issuers {
		if len(i.Audiences) == 0 {
			return configError(i.Range, errors.New("an issuer needs at least one audience"))
		}
		to.Issuers = append(to.Issuers, registry.Issuer{URL: i.URL, Audiences: i.Audiences, GroupsClaim: i.GroupsClaim})
	}
	for _, r := range c.Rules {
		allow, err := scopes(r.Range, r.Allow)
		if err != nil {
			return err
		}
		to.Rules = append(to.Rules, registry.Rule{Name: r.Name, Issuer: r.Issuer, Groups: r.Groups, Claims: r.Claims, Allow: allow})
	}
	return nil
}

func (c *serveConfig) login() (*registry.Login, error) {
	in := c.Login
	if in == nil {
		return nil, nil
	}
	out := &registry.Login{
		Issuer: registry.Issuer{URL: in.Issuer, GroupsClaim: in.GroupsClaim}, ClientID: in.ClientID, Scopes: in.Scopes, PublicURL: c.PublicURL,
	}
	switch in.Mode {
	case "direct":
		return out, c.directLogin(out)
	case "", "broker":
	default:
		return nil, configError(in.Range, fmt.Errorf("the login mode %q is not broker or direct", in.Mode))
	}
	if c.PublicURL == "" {
		return nil, configError(in.Range, errors.New("login needs public_url, which the issuer sends browsers back to"))
	}
	if in.SecretFile != "" {
		b, err := os.ReadFile(in.SecretFile)
		if err != nil {
			return nil, configError(in.Range, err)
		}
		out.ClientSecret = strings.TrimSpace(string(b))
	}
	if err := duration(in.Range, "token_ttl", in.TokenTTL, false, &out.TTL); err != nil {
		return nil, err
	}
	var err error
	out.NotBefore, err = instant(in.Range, "not_before", in.NotBefore)
	return out, err
}

// directLogin leaves the login to the issuer, whose tokens must then be accepted.
func (c *serveConfig) directLogin(out *registry.Login) error {
	in := c.Login
	if in.SecretFile != "" || in.TokenTTL != "" || in.NotBefore != "" || in.GroupsClaim != "" {
		return configError(in.Range, errors.New("a direct login has no client_secret_file, token_ttl, not_before or groups_claim: the tools get their tokens from the issuer"))
	}
	if !slices.ContainsFunc(c.Issuers, func(i issuerConfig) bool { return i.URL == in.Issuer }) {
		return configError(in.Range, fmt.Errorf("a direct login needs a block issuer %q, or its tokens are refused", in.Issuer))
	}
	out.Direct = true
	return nil
}

func scopes(at hcl.Range, list []string) ([]registry.Scope, error) {
	out := make([]registry.Scope, 0, len(list))
	for _, text := range list {
		s, err := registry.ParseScope(text)
		if err != nil {
			return nil, configError(at, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func prefixes(at hcl.Range, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, configError(at, fmt.Errorf("%q is not a network such as 10.0.0.0/8", text))
		}
		out = append(out, p)
	}
	return out, nil
}

func instant(at hcl.Range, name, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return t, configError(at, fmt.Errorf("%s %q is not a time such as 2027-01-31T00:00:00Z", name, value))
	}
	return t, nil
}
