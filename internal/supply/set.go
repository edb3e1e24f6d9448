// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// Set is the content of a depot file, or of a command line: what a registry gets, and from where.
type Set struct {
	Registry  string // HOST[/PREFIX]; "": given on the command line
	Interval  time.Duration
	Modules   []ModuleEntry
	Providers []ProviderEntry
	Auth      map[string]Auth // by name
}

// Auth is a named credential. The secret is stored outside of the file.
type Auth struct {
	Host     string
	TokenEnv string // environment variable that holds the token
	File     string // file that contains the token, mode 0600
	APIURL   string // of a GitHub Enterprise server; "": github.com

	AppID, Installation int64  // of a GitHub App, instead of a token
	KeyFile             string // its private key, PEM, mode 0600
}

// Validate refuses a credential with no secret or with several, and an API address without TLS.
func (a Auth) Validate() error {
	given := 0
	for _, set := range []bool{a.TokenEnv != "", a.File != "", a.AppID != 0} {
		if set {
			given++
		}
	}
	u, err := url.Parse(a.APIURL)
	switch {
	case given != 1:
		return errors.New("one of token_env, token_file and app_id is required")
	case a.AppID != 0 && (a.Installation == 0 || a.KeyFile == ""):
		return errors.New("app_id needs installation_id and private_key_file")
	case a.APIURL == "":
		return nil
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !netaddr.IsLoopback(u.Hostname()):
		return errors.New("api_url is not an https address such as https://github.example.com/api/v3/")
	}
	return nil
}

// setFile is the structure of the file. Pointers tell an absent argument from an empty one.
type setFile struct {
	Registry  *string         `hcl:"registry"`
	Interval  *string         `hcl:"interval"`
	Defaults  *defaultsBlock  `hcl:"defaults,block"`
	Auth      []authBlock     `hcl:"auth,block"`
	Modules   []moduleBlock   `hcl:"module,block"`
	Providers []providerBlock `hcl:"provider,block"`
}

type common struct {
	versions *string
	limit    *int
	keep     *string
	pin      *[]string
	auth     *string
	scan     *scanBlock
	approval *approvalBlock
}

type defaultsBlock struct {
	Limit     *int           `hcl:"limit"`
	Keep      *string        `hcl:"keep"`
	Auth      *string        `hcl:"auth"`
	Policy    *string        `hcl:"policy"`
	Ignore    *[]string      `hcl:"ignore"`
	Platforms *[]string      `hcl:"platforms"`
	Scan      *scanBlock     `hcl:"scan,block"`
	Approval  *approvalBlock `hcl:"approval,block"`
}

type authBlock struct {
	Name     string    `hcl:"name,label"`
	Host     string    `hcl:"host"`
	TokenEnv string    `hcl:"token_env,optional"`
	File     string    `hcl:"token_file,optional" path:"file"`
	APIURL   string    `hcl:"api_url,optional"`
	AppID    int64     `hcl:"app_id,optional"`
	Install  int64     `hcl:"installation_id,optional"`
	KeyFile  string    `hcl:"private_key_file,optional" path:"file"`
	Range    hcl.Range `hcl:",def_range"`
}

type moduleBlock struct {
	Name      string         `hcl:"address,label"`
	Source    string         `hcl:"source"`
	Versions  *string        `hcl:"versions"`
	Subdir    string         `hcl:"subdir,optional"`
	TagPrefix string         `hcl:"tag_prefix,optional"`
	Releases  bool           `hcl:"releases,optional"`
	Invalid   bool           `hcl:"allow_invalid,optional"`
	Limit     *int           `hcl:"limit"`
	Keep      *string        `hcl:"keep"`
	Pin       *[]string      `hcl:"pin"`
	Auth      *string        `hcl:"auth"`
	Policy    *string        `hcl:"policy"`
	Ignore    *[]string      `hcl:"ignore"`
	Scan      *scanBlock     `hcl:"scan,block"`
	Approval  *approvalBlock `hcl:"approval,block"`
	Range     hcl.Range      `hcl:",def_range"`
}

type providerBlock struct {
	Name          string         `hcl:"address,label"`
	Versions      *string        `hcl:"versions"`
	Origin        string         `hcl:"origin,optional" path:"place"`
	Platforms     *[]string      `hcl:"platforms"`
	AllowUnsigned bool           `hcl:"allow_unsigned,optional"`
	Limit         *int           `hcl:"limit"`
	Keep          *string        `hcl:"keep"`
	Pin           *[]string      `hcl:"pin"`
	Auth          *string        `hcl:"auth"`
	Scan          *scanBlock     `hcl:"scan,block"`
	Approval      *approvalBlock `hcl:"approval,block"`
	Range         hcl.Range      `hcl:",def_range"`
}

type scanBlock struct {
	Scanner  string `hcl:"scanner"`
	Block    string `hcl:"block,optional"`
	Database string `hcl:"database,optional" path:"file"`
	MaxAge   string `hcl:"max_age,optional"`
	Source   string `hcl:"source_repository,optional"`
}

type approvalBlock struct {
	Required  bool     `hcl:"required,optional"`
	Patch     bool     `hcl:"patch,optional"`
	SignedBy  []string `hcl:"signed_by,optional"`
	OlderThan string   `hcl:"older_than,optional"`
}

// ReadSet reads a file and calls [ParseSet].
func ReadSet(name string) (*Set, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return ParseSet(name, src)
}

// ParseSet reads a depot file in HCL, or JSON if name ends in .json. Mistakes have file and line.
func ParseSet(name string, src []byte) (*Set, error) {
	var file setFile
	if diags := syntax.Decode(src, name, &file); diags.HasErrors() {
		return nil, syntax.Wrong(diags)
	}
	b := setBuilder{file: file, set: &Set{Auth: map[string]Auth{}, Interval: time.Hour}}
	b.buildSet(name)
	if b.diags.HasErrors() {
		return nil, syntax.Wrong(b.diags)
	}
	return b.set, nil
}

type setBuilder struct {
	file  setFile
	set   *Set
	diags hcl.Diagnostics
}

func (b *setBuilder) addError(at hcl.Range, err error) {
	if err != nil {
		b.diags = append(b.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid block", Detail: err.Error(), Subject: &at})
	}
}

// failFields reports each mistake of an entry with the line of its block.
func (b *setBuilder) failFields(at hcl.Range, err error) {
	fields, _ := errors.AsType[FieldErrors](err)
	for _, f := range fields {
		b.addError(at, f.Err)
	}
}

func (b *setBuilder) buildSet(name string) {
	top := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	b.set.Registry = deref(b.file.Registry)
	if b.set.Registry != "" {
		_, _, err := addr.SplitRegistry(b.set.Registry)
		b.addError(top, err)
	}
	if b.file.Interval != nil {
		b.set.Interval = b.duration(top, "interval", *b.file.Interval)
	}
	if b.file.Defaults == nil {
		b.file.Defaults = &defaultsBlock{}
	}
	for _, a := range b.file.Auth {
		auth := Auth{Host: a.Host, TokenEnv: a.TokenEnv, File: a.File, APIURL: a.APIURL, AppID: a.AppID, Installation: a.Install, KeyFile: a.KeyFile}
		if err := auth.Validate(); err != nil {
			b.addError(a.Range, fmt.Errorf("auth %q: %w", a.Name, err))
		}
		if _, ok := b.set.Auth[a.Name]; ok {
			b.addError(a.Range, fmt.Errorf("auth %q appears twice", a.Name))
		}
		b.set.Auth[a.Name] = auth
	}
	for _, m := range b.file.Modules {
		b.buildModule(m)
	}
	for _, p := range b.file.Providers {
		b.buildProvider(p)
	}
}

func (b *setBuilder) buildModule(m moduleBlock) {
	d := b.file.Defaults
	spec := ModuleSpec{
		Address: m.Name, Source: m.Source, Subdir: m.Subdir, TagPrefix: m.TagPrefix, Releases: m.Releases,
		Policy: deref(cmp.Or(m.Policy, d.Policy)), Ignore: deref(cmp.Or(m.Ignore, d.Ignore)), AllowInvalid: m.Invalid,
		EntrySpec: b.commonSpec(m.Range, common{m.Versions, m.Limit, m.Keep, m.Pin, m.Auth, m.Scan, m.Approval}),
	}
	e, err := spec.Entry(fileLine(m.Range))
	b.failFields(m.Range, err)
	if slices.ContainsFunc(b.set.Modules, func(have ModuleEntry) bool { return have.Address == e.Address }) {
		b.addError(m.Range, fmt.Errorf("module %s appears twice", e.Address))
	}
	b.set.Modules = append(b.set.Modules, e)
}

func (b *setBuilder) buildProvider(p providerBlock) {
	d := b.file.Defaults
	spec := ProviderSpec{
		Address: p.Name, Origin: p.Origin, Platforms: deref(cmp.Or(p.Platforms, d.Platforms)), AllowUnsigned: p.AllowUnsigned,
		EntrySpec: b.commonSpec(p.Range, common{p.Versions, p.Limit, p.Keep, p.Pin, p.Auth, p.Scan, p.Approval}),
	}
	e, err := spec.Entry(fileLine(p.Range))
	b.failFields(p.Range, err)
	if slices.ContainsFunc(b.set.Providers, func(have ProviderEntry) bool { return have.Address == e.Address }) {
		b.addError(p.Range, fmt.Errorf("provider %s appears twice", e.Address))
	}
	b.set.Providers = append(b.set.Providers, e)
}

func fileLine(at hcl.Range) string { return fmt.Sprintf("%s:%d", at.Filename, at.Start.Line) }

// commonSpec returns the fields common to both kinds of blocks, with the defaults, and
// checks those that depend on the file.
func (b *setBuilder) commonSpec(at hcl.Range, c common) EntrySpec {
	d := b.file.Defaults
	e := EntrySpec{Versions: deref(c.versions), Limit: deref(cmp.Or(c.limit, d.Limit)), Pin: deref(c.pin), Auth: deref(cmp.Or(c.auth, d.Auth))}
	if keep := cmp.Or(c.keep, d.Keep); keep != nil {
		var err error
		if e.Keep, e.KeepUsed, err = ParseKeep(*keep); err != nil {
			b.addError(at, fmt.Errorf("keep: %w", err))
		}
	}
	if _, ok := b.set.Auth[e.Auth]; e.Auth != "" && !ok {
		b.addError(at, fmt.Errorf("no auth block %q", e.Auth))
	}
	if s := cmp.Or(c.scan, d.Scan); s != nil {
		e.Scan = ScanPolicy{Scanner: s.Scanner, Block: s.Block, Database: s.Database, MaxAge: b.duration(at, "max_age", s.MaxAge), SourceRepository: s.Source}
	}
	if a := cmp.Or(c.approval, d.Approval); a != nil {
		e.Approval = ApprovalPolicy{
			Required: a.Required, Patch: a.Patch, SignedBy: a.SignedBy, OlderAge: b.duration(at, "older_than", a.OlderThan),
		}
	}
	return e
}

func (b *setBuilder) duration(at hcl.Range, name, s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		b.addError(at, fmt.Errorf("%s: %q is not a duration such as 30m or 72h", name, s))
	}
	return d
}

func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
