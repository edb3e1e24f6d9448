// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/instances/internal/driver"
	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/instances/templatesource"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
)

// Roles of a replica.
const (
	RoleAll    = "all"    // leads, and serves everything
	RolePortal = "portal" // never leads; forwards requests to the leader
	RoleRunner = "runner" // leads, and serves only forwarded requests
)

const (
	defaultRuns = 4
	maxRuns     = 64
	defaultRate = 60
)

// Options are the checked settings of the blocks.
type Options struct {
	Role         string
	Templates    string // folder; "": no folder
	Sources      []templatesource.Source
	Config       map[string]string
	TTL          *template.TTL        // nil: instances have no end unless the template sets one
	Connection   *template.Connection // nil: none
	Limits       lifecycle.Limits
	GroupAge     time.Duration
	Rate, Runs   int
	Advertise    *url.URL // nil: others do not reach this replica
	ForwardPlain bool
	InClear      bool
	Executor     Executor
	Credentials  []Credential
	Notify       *Receiver     // nil: no notices are sent
	Prices       *prices.Table // nil: no prices
}

// Receiver is where notices are sent.
type Receiver struct {
	URL    *url.URL
	Secret []byte
}

// Beside holds facts about the other settings, which the blocks must fit.
type Beside struct {
	Registry    bool // not the built-in one
	StateKeys   bool // states are sealed
	ArchiveKeys bool // for links, in files
	SessionKeys bool // for browsers, in files
	More        bool // a depot, webhooks, pull-through or the tokens of callers for the registry
	Remote      bool // plans and applies of the tools run here
	Secret      func(file string) (string, error)
}

// Check returns the checked options; nil: there are no blocks. Errors are [syntax.SettingError]
// values.
func (b *Block) Check(beside Beside) (*Options, error) {
	in := b.Instances
	if in == nil {
		return nil, b.withoutInstances()
	}
	o := b.uncheckedOptions()
	o.Role = cmp.Or(in.Role, RoleAll)
	o.Templates = in.Templates
	o.ForwardPlain = in.ForwardPlain
	o.InClear = in.Unsealed
	o.Credentials = b.Credentials
	for _, part := range []func(*Options, Beside) error{
		b.checkRole, b.checkNumbers, b.checkDefaults, b.templates, b.quotas, b.checkRuns, b.peers, b.notices, b.readPrices,
	} {
		if err := part(o, beside); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Common returns the options of the blocks instances and quota that do not depend on where
// instances run and how their leader is found: those that also exist on a cluster.
func (b *Block) Common() (*Options, error) {
	if b.Instances == nil {
		b = &Block{Instances: &Instances{}, Quotas: b.Quotas}
	}
	o := b.uncheckedOptions()
	for _, part := range []func(*Options, Beside) error{b.checkNumbers, b.checkDefaults, b.quotas} {
		if err := part(o, Beside{}); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// uncheckedOptions returns the settings that need no check.
func (b *Block) uncheckedOptions() *Options {
	in := b.Instances
	return &Options{
		Config: in.Config, Rate: cmp.Or(in.Rate, defaultRate), Runs: cmp.Or(in.Runs, defaultRuns), GroupAge: in.GroupAge.Value(),
		Limits: lifecycle.Limits{ApprovalSelf: in.ApprovalSelf},
	}
}

func (b *Block) withoutInstances() error {
	at := hcl.Range{}
	what := ""
	switch {
	case len(b.Executors) > 0:
		at = b.Executors[0].Range
		what = "executor"
	case len(b.Credentials) > 0:
		at = b.Credentials[0].Range
		what = "credential"
	case len(b.Sources) > 0:
		at = b.Sources[0].Range
		what = "template_source"
	case len(b.Quotas) > 0:
		at = b.Quotas[0].Range
		what = "quota"
	case b.Notify != nil:
		at = b.Notify.Range
		what = "notify"
	default:
		return nil
	}
	return syntax.WrongAt(at, fmt.Errorf("the %s block requires an instances block\nhint: add instances { templates = \"DIR\" }", what))
}

// checkRole refuses settings that a role does not use, or must not have.
func (b *Block) checkRole(o *Options, beside Beside) error {
	in := b.Instances
	if !slices.Contains([]string{RoleAll, RolePortal, RoleRunner}, o.Role) {
		return syntax.WrongAt(in.Range, fmt.Errorf("invalid role %q: must be all, portal or runner", in.Role))
	}
	if o.Role != RolePortal {
		return b.checkLeader(beside)
	}
	refused := func(message string) error { return syntax.WrongAt(in.Range, errors.New(message)) }
	attributes := in.Templates != "" || in.Advertise != "" || in.GroupAge != "" || len(in.PortalKeys) > 0
	bounds := in.Rate != 0 || in.Runs != 0 || in.TTL != nil || in.Quota != nil
	flags := in.Unsealed || in.ApprovalSelf
	blocks := in.Connection != nil || in.Config != nil || in.Prices != nil
	switch {
	case attributes || bounds || flags || blocks:
		return refused("a portal accepts only role and forward_plain: the other settings are for servers that can lead")
	case len(b.Executors)+len(b.Credentials)+len(b.Sources)+len(b.Quotas) > 0 || b.Notify != nil:
		return refused("a portal has no executor, credential, template_source, quota or notify: it runs nothing\nhint: they belong on servers with role = \"all\" or \"runner\"")
	case !beside.Registry:
		return refused("a portal needs a registry, in which it finds the leader\nhint: name it with registry = \"HOST[/PREFIX]\"")
	case beside.StateKeys:
		return refused("a portal must not have the state keys\nhint: start it without OKARA_STATE_KEYS")
	case beside.ArchiveKeys:
		return refused("a portal must not have archives.key_files: it serves no archives, and issues no tokens")
	case !beside.SessionKeys:
		return refused("a portal needs ui.session_key_files, which encrypt its sessions and verify the leader\nhint: servers that can lead name the same files in instances.portal_session_key_files")
	case beside.More:
		return refused("a portal serves only instances: no depot, github, hook, pull_through or pass_through")
	}
	return nil
}

// checkLeader refuses a replica that can lead without the settings which that requires.
func (b *Block) checkLeader(beside Beside) error {
	in := b.Instances
	switch {
	case beside.Registry && !beside.StateKeys && !in.Unsealed:
		return syntax.WrongAt(in.Range, errors.New("instances require the state keys: otherwise write access to the registry would give access to all that the instances may access\n"+
			"hint: set OKARA_STATE_KEYS, or unsealed = true if no one else can write there"))
	case beside.StateKeys && in.Unsealed:
		return syntax.WrongAt(in.Range, errors.New("unsealed = true conflicts with the state keys: remove one of them"))
	case in.Templates == "" && len(b.Sources) == 0 && !beside.Remote:
		return syntax.WrongAt(in.Range, errors.New("no source of templates is set\nhint: set templates = \"DIR\", or add a template_source block"))
	case len(b.Executors) == 0:
		return syntax.WrongAt(in.Range, errors.New("no executor is set\nhint: add executor \"local\" {}"))
	}
	return nil
}

func (b *Block) checkNumbers(o *Options, _ Beside) error {
	in := b.Instances
	switch {
	case o.Rate < 1:
		return syntax.WrongAt(in.Range, fmt.Errorf("rate %d: must be at least 1 change a minute", o.Rate))
	case o.Runs < 1 || o.Runs > maxRuns:
		return syntax.WrongAt(in.Range, fmt.Errorf("runs %d: must be 1 to %d at once", o.Runs, maxRuns))
	}
	return syntax.CheckDuration(in.Range, "group_age", in.GroupAge)
}

func (b *Block) checkDefaults(o *Options, _ Beside) (err error) {
	in := b.Instances
	for name := range in.Config {
		if !configName().MatchString(name) {
			return syntax.WrongAt(in.Range, fmt.Errorf("config: %q is not a valid name in templates", name))
		}
	}
	if in.TTL != nil {
		if o.TTL, err = readLifetime(in.TTL); err != nil {
			return err
		}
	}
	if c := in.Connection; c != nil {
		o.Connection = &template.Connection{Type: c.Type, URL: c.URL, Message: c.Message}
		switch {
		case c.Type == "web" && c.URL == "":
			return syntax.WrongAt(c.Range, errors.New("a connection of type web needs a url"))
		case c.Type != "web" && (c.Type != "instructions" || c.URL != "" || c.Message == ""):
			return syntax.WrongAt(c.Range, errors.New("a connection is of type web, with a url, or instructions, with a message"))
		}
	}
	return nil
}

var configName = text.Pattern(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// readLifetime returns the lifetime of templates without one; nil: they have no end.
func readLifetime(l *template.Lifetime) (*template.TTL, error) {
	var all []error
	report := func(at hcl.Range, format string, args ...any) {
		all = append(all, syntax.WrongAt(at, fmt.Errorf(format, args...)))
	}
	ttl := l.TTL(report)
	if ttl != nil && ttl.Extend > 0 && ttl.Extends == 0 {
		report(l.At("extend"), "ttl: extend requires extends, the number of extensions")
	}
	return ttl, errors.Join(all...)
}

// templates checks where templates come from.
func (b *Block) templates(o *Options, _ Beside) error {
	if o.Templates != "" {
		if info, err := os.Stat(o.Templates); err != nil || !info.IsDir() {
			return syntax.WrongAt(b.Instances.Range, fmt.Errorf("templates %q is not a folder", o.Templates))
		}
	}
	for _, in := range b.Sources {
		source, err := b.templateSource(in)
		if err != nil {
			return syntax.WrongAt(in.Range, fmt.Errorf("template_source %q: %w", in.Templates, err))
		}
		o.Sources = append(o.Sources, source)
	}
	return nil
}

func (b *Block) templateSource(source TemplateSource) (out templatesource.Source, err error) {
	out = templatesource.Source{Templates: source.Templates, Modules: source.Modules, Credentials: source.Credentials, Max: source.Max}
	if err := checkTemplateGlob(source.Templates); err != nil {
		return out, err
	}
	if out.Versions, err = addr.ParseConstraint(source.Versions); err != nil {
		return out, err
	}
	for _, glob := range source.Modules {
		if strings.Count(glob, "/") != 2 && !strings.Contains(glob, "**") {
			return out, fmt.Errorf("modules: %q is not a glob over NAMESPACE/NAME/SYSTEM", glob)
		}
	}
	for _, name := range source.Credentials {
		if !slices.ContainsFunc(b.Credentials, func(c Credential) bool { return c.Name == name }) {
			return out, fmt.Errorf("no credential block %q", name)
		}
	}
	if source.Max < 0 {
		return out, fmt.Errorf("max must not be negative: %d", source.Max)
	}
	return out, nil
}

// checkTemplateGlob refuses a glob that no template can match.
func checkTemplateGlob(glob string) error {
	if glob != "**" && strings.Count(glob, "/") != 1 {
		return fmt.Errorf("%q is not a glob over NAMESPACE/NAME", glob)
	}
	if namespace, _, _ := strings.Cut(glob, "/"); namespace == addr.TemplateReserved {
		return fmt.Errorf("namespace %s is reserved", namespace)
	}
	return nil
}

// quotas reads the limits of owners: the one for all owners has no name.
func (b *Block) quotas(o *Options, _ Beside) error {
	if q := b.Instances.Quota; q != nil {
		if q.User < 0 || q.Group < 0 || q.User+q.Group == 0 {
			return syntax.WrongAt(q.Range, errors.New("a quota must have user, group or both, each at least 1"))
		}
		o.Limits.Quotas = append(o.Limits.Quotas, lifecycle.Quota{User: q.User, Group: q.Group})
	}
	for _, q := range b.Quotas {
		refused := func(err error) error { return syntax.WrongAt(q.Range, fmt.Errorf("quota %q: %w", q.Name, err)) }
		if q.User < 0 || q.Group < 0 || q.User+q.Group == 0 {
			return refused(errors.New("must have user, group or both, each at least 1"))
		}
		if slices.ContainsFunc(o.Limits.Quotas, func(other lifecycle.Quota) bool { return other.Name == q.Name }) {
			return refused(errors.New("duplicate"))
		}
		for _, glob := range q.Templates {
			if err := checkTemplateGlob(glob); err != nil {
				return refused(err)
			}
		}
		o.Limits.Quotas = append(o.Limits.Quotas, lifecycle.Quota{Name: q.Name, Groups: q.Groups, Templates: q.Templates, User: q.User, Group: q.Group})
	}
	return nil
}

// peers reads how replicas reach one another.
func (b *Block) peers(o *Options, _ Beside) error {
	in := b.Instances
	if in.Advertise != "" {
		u, err := portal.CheckPeer(in.Advertise, in.ForwardPlain)
		if err != nil {
			return syntax.WrongAt(in.Range, fmt.Errorf("advertise: %w", err))
		}
		o.Advertise = u
	}
	if o.Role == RoleRunner && o.Advertise == nil {
		return syntax.WrongAt(in.Range, errors.New("a runner answers only forwarded requests, and its address is not set\nhint: set advertise = \"https://HOST:PORT\""))
	}
	return nil
}

func (b *Block) notices(o *Options, beside Beside) error {
	if b.Notify == nil {
		return nil
	}
	secret, err := beside.Secret(b.Notify.SecretFile)
	if err != nil {
		return syntax.WrongAt(b.Notify.Range, err)
	}
	u, err := url.Parse(b.Notify.URL)
	if err != nil {
		return syntax.WrongAt(b.Notify.Range, errors.New("notify: url is not the address of a receiver"))
	}
	o.Notify = &Receiver{URL: u, Secret: []byte(secret)}
	if _, err := driver.NewNotifier(driver.NotifyOptions{URL: u, Secret: o.Notify.Secret}); err != nil {
		return syntax.WrongAt(b.Notify.Range, err)
	}
	return nil
}

func (b *Block) readPrices(o *Options, _ Beside) error {
	in := b.Instances.Prices
	if in == nil {
		return nil
	}
	src, err := files.ReadLimited(in.File, prices.MaxTable)
	if err != nil {
		err = fmt.Errorf("%w\nhint: name a CSV file of at most %d bytes", err, prices.MaxTable)
	} else {
		o.Prices, err = prices.Parse(src, in.Currency)
	}
	if err != nil {
		return syntax.WrongAt(in.Range, fmt.Errorf("prices %q: %w", in.File, err))
	}
	return nil
}
