// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web"
)

// Settings are all settings of a server. A file sets them by the tags; fields that the caller sets
// after override it. Start from [Defaults]; blocks that have a default are never nil.
type Settings struct {
	Listen    string `hcl:"listen,optional"`                // address and port
	Metrics   string `hcl:"metrics_listen,optional"`        // separate address for /metrics, which is then not served elsewhere
	Storage   string `hcl:"storage,optional" path:"file"`   // folder of the built-in registry, the link key and the local CA
	Registry  string `hcl:"registry,optional"`              // HOST[/PREFIX] of another registry; "": the built-in one
	Hostname  string `hcl:"hostname,optional"`              // name that clients use for this server
	BasePath  string `hcl:"base_path,optional"`             // path below which a proxy serves okara
	PublicURL string `hcl:"public_url,optional"`            // URL at which browsers reach this server
	AuditLog  string `hcl:"audit_log,optional" path:"file"` // file that gets one line per decision and change, "-" for stderr
	AccessLog bool   `hcl:"access_log,optional"`            // one log record per request
	LogFormat string `hcl:"log_format,optional"`            // text or json
	Hide      *bool  `hcl:"denied_means_missing,optional"`  // 404 where the registry refuses a read; nil: depends on the registry
	MCP       bool   `hcl:"mcp,optional"`                   // answer assistants below /mcp
	Pass      bool   `hcl:"pass_through,optional"`          // the token of a caller is a credential for the registry

	Depot         string          `hcl:"depot,optional" path:"file"`   // depot file to run on its interval
	UsedBy        []string        `hcl:"used_by,optional" path:"file"` // lock files, or folders of them, whose versions retention keeps
	AllowInternal []string        `hcl:"allow_internal,optional"`      // hosts at an internal address that origins may name
	Grace         syntax.Duration `hcl:"grace,optional"`               // how long to continue after a signal, not ready; "": 5s, 0 on a loopback address
	GraceRange    hcl.Range       `hcl:"grace,attr_value_range"`
	Drain         syntax.Duration `hcl:"drain,optional"` // how long running downloads may take after that
	DrainRange    hcl.Range       `hcl:"drain,attr_value_range"`
	RulesFile     string          `hcl:"rules_file,optional" path:"file"` // JSON with further rules, read again when it changes
	TokenFile     string          `hcl:"token_file,optional" path:"file"` // tokens and their scopes, one per line
	RulesRange    hcl.Range       `hcl:"rules_file,attr_value_range"`
	RevokedKeys   []string        `hcl:"revoked_keys,optional"` // OpenPGP keys whose artifacts are not served any more
	RevokedRange  hcl.Range       `hcl:"revoked_keys,attr_value_range"`
	Proxies       []string        `hcl:"proxies,optional"` // networks whose X-Forwarded-For is trusted
	ProxiesRange  hcl.Range       `hcl:"proxies,attr_value_range"`

	TLS      *TLS      `hcl:"tls,block"`
	Layout   *Layout   `hcl:"layout,block"`
	Modules  *Modules  `hcl:"modules,block"`
	Archives *Archives `hcl:"archives,block"`
	Cache    *Cache    `hcl:"cache,block"`
	GC       *GC       `hcl:"gc,block"`
	UI       *UI       `hcl:"ui,block"`
	Login    *Login    `hcl:"login,block"` // nil: no login

	// Further parts of the file.
	Access  access.Block // access control
	Origins Origins      // content from other servers
	Cloud   Cloud        // the API for `cloud` and backend "remote"

	// Fields that no file sets.
	Extension      Extension // handles further blocks of the file; nil: none
	Claim          Claim     // what the extension requires, once the file was read
	File           string    // the file that was read last
	AnonymousRead  bool      // every caller may read modules and providers, overrides Access
	AnonymousWrite bool      // every caller may do everything
	NoUI           bool      // no pages, overrides UI
}

// TLS is the certificate of the server: from files, or made with a local CA.
type TLS struct {
	Cert       string    `hcl:"cert,optional" path:"file"` // PEM file of the certificate
	Key        string    `hcl:"key,optional" path:"file"`  // PEM file of its key
	SelfSigned bool      `hcl:"self_signed,optional"`      // make a certificate with a CA kept below the storage
	Range      hcl.Range `hcl:",def_range"`
}

// Layout has the templates of repository names in the registry.
type Layout struct {
	Modules   string    `hcl:"modules,optional"`
	Providers string    `hcl:"providers,optional"`
	Mirror    string    `hcl:"mirror,optional"`
	State     string    `hcl:"state,optional"`
	Primary   string    `hcl:"state_primary,optional"` // of the states of which those of State are a copy
	Catalog   string    `hcl:"catalog,optional"`
	Queue     string    `hcl:"queue,optional"`
	Templates string    `hcl:"templates,optional"` // of instances, like the two below
	Instances string    `hcl:"instances,optional"`
	Ledger    string    `hcl:"ledger,optional"`
	Range     hcl.Range `hcl:",def_range"`
}

// Modules configures the answers to newer versions of OpenTofu.
type Modules struct {
	Answer   string `hcl:"answer,optional"`   // portable, oci or direct
	Registry string `hcl:"registry,optional"` // name of the registry for clients, for oci
}

// Archives configures how archives are linked and delivered.
type Archives struct {
	TTL       syntax.Duration `hcl:"ttl,optional"`                   // lifetime of a link
	Redirect  string          `hcl:"redirect,optional"`              // auto or never: send clients to the registry's own storage
	StreamFor []string        `hcl:"stream_for,optional"`            // networks of clients that are not redirected
	KeyFiles  []string        `hcl:"key_files,optional" path:"file"` // secrets of links; the first signs, all are valid
	Range     hcl.Range       `hcl:",def_range"`
}

// Cache configures what is cached of the registry, and for how long.
type Cache struct {
	TagTTL syntax.Duration `hcl:"tag_ttl,optional"`         // how long the tag of a module version is assumed not to move
	Blobs  syntax.Size     `hcl:"blobs,optional"`           // size of the archives kept on disk; "": none
	Dir    string          `hcl:"dir,optional" path:"file"` // folder of the archives; "": below the storage
	Range  hcl.Range       `hcl:",def_range"`
}

// UI configures the pages.
type UI struct {
	Enabled    *bool           `hcl:"enabled,optional"`                        // serve pages below /ui/; nil: yes
	SessionTTL syntax.Duration `hcl:"session_ttl,optional"`                    // how long browsers stay logged in
	Keys       []string        `hcl:"session_key_files,optional" path:"file"`  // secrets of sessions; the first seals, all are valid
	TokenLogin bool            `hcl:"token_login,optional"`                    // users may log in with a static token beside an issuer
	ClientID   string          `hcl:"client_id,optional"`                      // of the pages at the issuer, with a direct login
	SecretFile string          `hcl:"client_secret_file,optional" path:"file"` // of that client
	States     []string        `hcl:"states,optional"`                         // names of states that were written without this server
	ImageHosts []string        `hcl:"image_hosts,optional"`                    // other hosts whose images READMEs show
	Pages      *UIPages        `hcl:"pages,block"`
	Range      hcl.Range       `hcl:",def_range"`
}

// UIPages switches parts of the pages off. Nil means on, if there is something to show.
type UIPages struct {
	Catalog   *bool `hcl:"catalog,optional"`
	States    *bool `hcl:"states,optional"`
	Instances *bool `hcl:"instances,optional"`
	Depot     *bool `hcl:"depot,optional"`
	Doctor    *bool `hcl:"doctor,optional"`
	Audit     *bool `hcl:"audit,optional"`
}

func (u *UI) partsOff() web.Parts {
	p := u.Pages
	if p == nil {
		return web.Parts{}
	}
	off := func(b *bool) bool { return b != nil && !*b }
	return web.Parts{Catalog: off(p.Catalog), States: off(p.States), Instances: off(p.Instances), Depot: off(p.Depot), Doctor: off(p.Doctor), Audit: off(p.Audit)}
}

// GC configures when the built-in registry frees space, and how much it keeps free.
type GC struct {
	Interval syntax.Duration `hcl:"interval,optional"` // how often; 0: never
	MinAge   syntax.Duration `hcl:"min_age,optional"`  // younger blobs are kept
	Reserve  syntax.Size     `hcl:"reserve,optional"`  // for locks and states when the disk is full; 0: none
	Range    hcl.Range       `hcl:",def_range"`
}

// Origins has the blocks of a file about content from other servers, and the policies for it.
type Origins struct {
	GitHub  []GitHub  `hcl:"github,block"`
	Hooks   []Hook    `hcl:"hook,block"`
	Require []Require `hcl:"require,block"`
	Pulls   []Pull    `hcl:"pull_through,block"`
}

// Defaults returns the settings of a server without a settings file.
func Defaults() *Settings {
	return &Settings{
		Listen: "127.0.0.1:8080", Drain: "10m0s", LogFormat: "text",
		TLS: &TLS{}, Layout: &Layout{}, Modules: &Modules{},
		Archives: &Archives{TTL: "4h0m0s", Redirect: "auto"},
		Cache:    &Cache{TagTTL: "30s"},
		GC:       &GC{Interval: "1h0m0s", MinAge: "24h0m0s", Reserve: "8MiB"},
		UI:       &UI{},
		Cloud:    Cloud{TFE: &TFE{Interval: "30s", Memory: "1GiB", RunTimeout: "1h0m0s"}},
	}
}

// Read reads settings from an HCL file. Errors name file and line.
func (s *Settings) Read(file string) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return &syntax.SettingError{Err: err}
	}
	s.File = file
	if err := syntax.Wrong(syntax.DecodeParts(src, file, s.settingParts()...)); err != nil {
		return err
	}
	s.fillDefaults()
	return s.check()
}

// settingParts returns the structs that share the file.
func (s *Settings) settingParts() []any {
	all := []any{s, &s.Access, &s.Origins, &s.Cloud}
	if s.Extension != nil {
		all = append(all, s.Extension.Blocks()...)
	}
	return all
}

// fillDefaults sets defaults for empty fields.
func (s *Settings) fillDefaults() {
	d := Defaults()
	s.Listen = cmp.Or(s.Listen, d.Listen)
	s.Drain = cmp.Or(s.Drain, d.Drain)
	s.LogFormat = cmp.Or(s.LogFormat, d.LogFormat)
	s.Archives.TTL = cmp.Or(s.Archives.TTL, d.Archives.TTL)
	s.Archives.Redirect = cmp.Or(s.Archives.Redirect, d.Archives.Redirect)
	s.Cache.TagTTL = cmp.Or(s.Cache.TagTTL, d.Cache.TagTTL)
	s.GC.Interval = cmp.Or(s.GC.Interval, d.GC.Interval)
	s.GC.MinAge = cmp.Or(s.GC.MinAge, d.GC.MinAge)
	s.GC.Reserve = cmp.Or(s.GC.Reserve, d.GC.Reserve)
	s.Cloud.TFE.Interval = cmp.Or(s.Cloud.TFE.Interval, d.Cloud.TFE.Interval)
	s.Cloud.TFE.Memory = cmp.Or(s.Cloud.TFE.Memory, d.Cloud.TFE.Memory)
	s.Cloud.TFE.RunTimeout = cmp.Or(s.Cloud.TFE.RunTimeout, d.Cloud.TFE.RunTimeout)
}

// check refuses invalid durations and sizes in the file.
func (s *Settings) check() error {
	var interval error
	if s.GC.Interval != "0" && s.GC.Interval != "0s" {
		interval = syntax.CheckDuration(s.GC.Range, "interval", s.GC.Interval)
	}
	if err := errors.Join(
		syntax.CheckDuration(s.GraceRange, "grace", s.Grace),
		syntax.CheckDuration(s.DrainRange, "drain", s.Drain),
		syntax.CheckDuration(s.Archives.Range, "ttl", s.Archives.TTL),
		syntax.CheckDuration(s.Cache.Range, "tag_ttl", s.Cache.TagTTL),
		syntax.CheckDuration(s.UI.Range, "session_ttl", s.UI.SessionTTL),
		interval, syntax.CheckDuration(s.GC.Range, "min_age", s.GC.MinAge), s.GC.checkReserve(),
		s.Cloud.TFE.check(), s.Cloud.TFE.checkRuns(), s.checkExtension(),
	); err != nil {
		return err
	}
	if s.Cache.Blobs != "" {
		if _, err := text.ParseSize(string(s.Cache.Blobs)); err != nil {
			return syntax.WrongAt(s.Cache.Range, fmt.Errorf("blobs %w", err))
		}
	}
	return nil
}

// maxReserve bounds the space that other writes cannot use.
const maxReserve = 1 << 30

func (g *GC) checkReserve() error {
	if g.Reserve == "0" {
		return nil
	}
	n, err := text.ParseSize(string(g.Reserve))
	if err != nil {
		return syntax.WrongAt(g.Range, fmt.Errorf("reserve %w", err))
	}
	if n > maxReserve {
		return syntax.WrongAt(g.Range, fmt.Errorf("reserve %q is more than 1GiB", string(g.Reserve)))
	}
	return nil
}
