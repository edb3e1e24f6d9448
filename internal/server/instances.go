// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
)

// Roles of a replica.
const (
	roleAll    = "all"    // leads, and serves everything
	rolePortal = "portal" // never leads, and serves what it hands on to who does
	roleRunner = "runner" // leads, and serves what others hand on
)

// localExecutor runs tofu on the machine of the leader.
const localExecutor = "local"

const (
	defaultRuns = 4
	mostRuns    = 64
	defaultRate = 60
)

// instances are what the settings say of instances, checked.
type instances struct {
	role         string
	templates    string // folder; "": none
	sources      []portal.TemplateSource
	config       map[string]string
	ttl          *lifecycle.TTL        // nil: templates that say nothing have no end
	connection   *lifecycle.Connection // nil: none
	limits       lifecycle.Limits
	groupAge     time.Duration
	rate, runs   int
	advertise    *url.URL // nil: others do not reach this replica
	forwardPlain bool
	portalKeys   []access.Key
	inClear      bool
	executor     Executor
	credentials  []Credential
	notify       *notify // nil: nobody is told
}

// notify is a receiver of notices.
type notify struct {
	url    *url.URL
	secret []byte
}

// instances reads the blocks about instances; nil: there are none.
func (s *Settings) instances(env Env) (*instances, error) {
	in := s.Instances
	if in == nil {
		return nil, s.withoutInstances()
	}
	o := &instances{
		role: cmp.Or(in.Role, roleAll), templates: in.Templates, config: in.Config,
		rate: cmp.Or(in.Rate, defaultRate), runs: cmp.Or(in.Runs, defaultRuns), forwardPlain: in.ForwardPlain, inClear: in.Unsealed,
		credentials: s.Credentials, groupAge: in.GroupAge.Value(),
	}
	o.limits.ApprovalSelf = in.ApprovalSelf
	for _, part := range []func(*instances, Env) error{
		s.instanceRole, s.instanceNumbers, s.instanceDefaults, s.instanceTemplates, s.instanceQuotas, s.instanceRuns, s.instancePeers, s.instanceNotices,
	} {
		if err := part(o, env); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// withoutInstances refuses blocks that only instances use.
func (s *Settings) withoutInstances() error {
	at, what := hcl.Range{}, ""
	switch {
	case len(s.Executors) > 0:
		at, what = s.Executors[0].Range, "executor"
	case len(s.Credentials) > 0:
		at, what = s.Credentials[0].Range, "credential"
	case len(s.Sources) > 0:
		at, what = s.Sources[0].Range, "template_source"
	case len(s.Quotas) > 0:
		at, what = s.Quotas[0].Range, "quota"
	case s.Notify != nil:
		at, what = s.Notify.Range, "notify"
	default:
		return nil
	}
	return syntax.WrongAt(at, fmt.Errorf("a block %s needs a block instances\nhint: add instances { templates = \"DIR\" }", what))
}

// instanceRole refuses what a role does not use, or must not have.
func (s *Settings) instanceRole(o *instances, env Env) error {
	in := s.Instances
	if !slices.Contains([]string{roleAll, rolePortal, roleRunner}, o.role) {
		return syntax.WrongAt(in.Range, fmt.Errorf("the role %q is not all, portal or runner", in.Role))
	}
	if o.role != rolePortal {
		return s.leads(env)
	}
	refused := func(message string) error { return syntax.WrongAt(in.Range, errors.New(message)) }
	unused := in.Templates != "" || in.Advertise != "" || in.Unsealed || in.GroupAge != "" || in.Rate != 0 || in.Runs != 0 ||
		len(in.PortalKeys) > 0 || in.TTL != nil || in.Quota != nil || in.Connection != nil || in.Config != nil || in.ApprovalSelf
	switch {
	case unused:
		return refused("a portal has only role and forward_plain: all else is for those who lead")
	case len(s.Executors)+len(s.Credentials)+len(s.Sources)+len(s.Quotas) > 0 || s.Notify != nil:
		return refused("a portal has no executor, credential, template_source, quota or notify: it runs nothing\nhint: they belong to the servers of role all or runner")
	case s.Registry == "":
		return refused("a portal needs a registry, in which those who lead are found\nhint: name it with registry = \"HOST[/PREFIX]\"")
	case env.States.Sealer != nil:
		return refused("a portal must not have the state keys\nhint: start it without OKARA_STATE_KEYS")
	case len(s.Archives.KeyFiles) > 0:
		return refused("a portal must not have archives.key_files: it serves no archives, and gives no tokens")
	case len(s.UI.Keys) == 0:
		return refused("a portal needs ui.session_key_files, which seal its sessions and by which it knows who leads\nhint: those who lead name the same files in instances.portal_session_key_files")
	case s.Depot != "" || len(s.GitHub)+len(s.Hooks)+len(s.Pulls) > 0 || s.Pass:
		return refused("a portal serves instances alone: no depot, github, hook, pull_through or pass_through")
	}
	return nil
}

// leads refuses what a replica that leads cannot do without.
func (s *Settings) leads(env Env) error {
	in := s.Instances
	switch {
	case s.Registry != "" && env.States.Sealer == nil && !in.Unsealed:
		return syntax.WrongAt(in.Range, errors.New("instances need the state keys: who writes to the registry would own what they own\n"+
			"hint: set OKARA_STATE_KEYS, or unsealed = true if nobody else writes there"))
	case env.States.Sealer != nil && in.Unsealed:
		return syntax.WrongAt(in.Range, errors.New("unsealed = true, and there are state keys: one of the two is not meant"))
	case in.Templates == "" && len(s.Sources) == 0 && !s.runsRemote():
		return syntax.WrongAt(in.Range, errors.New("nothing says what may be launched\nhint: set templates = \"DIR\", or add a block template_source"))
	case len(s.Executors) == 0:
		return syntax.WrongAt(in.Range, errors.New("nothing says what runs tofu\nhint: add executor \"local\" {}"))
	}
	return nil
}

func (s *Settings) instanceNumbers(o *instances, _ Env) error {
	in := s.Instances
	switch {
	case o.rate < 1:
		return syntax.WrongAt(in.Range, fmt.Errorf("rate %d: at least 1 change a minute", o.rate))
	case o.runs < 1 || o.runs > mostRuns:
		return syntax.WrongAt(in.Range, fmt.Errorf("runs %d: from 1 to %d at once", o.runs, mostRuns))
	}
	return syntax.CheckDuration(in.Range, "group_age", in.GroupAge)
}

// instanceDefaults are what templates have that say nothing else.
func (s *Settings) instanceDefaults(o *instances, _ Env) (err error) {
	in := s.Instances
	for name := range in.Config {
		if !configName.MatchString(name) {
			return syntax.WrongAt(in.Range, fmt.Errorf("config: %q is not a name that templates can write", name))
		}
	}
	if in.TTL != nil {
		if o.ttl, err = in.TTL.read(); err != nil {
			return err
		}
	}
	if c := in.Connection; c != nil {
		o.connection = &lifecycle.Connection{Type: c.Type, URL: c.URL, Message: c.Message}
		switch {
		case c.Type == "web" && c.URL == "":
			return syntax.WrongAt(c.Range, errors.New("a connection of type web needs a url"))
		case c.Type != "web" && (c.Type != "instructions" || c.URL != "" || c.Message == ""):
			return syntax.WrongAt(c.Range, errors.New("a connection is of type web, with a url, or instructions, with a message"))
		}
	}
	return nil
}

var configName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

const (
	noEnd   = "none"
	leastTo = 10 * time.Minute // no lifetime is shorter
)

// read returns the lifetime, nil for none.
func (t *TTL) read() (*lifecycle.TTL, error) {
	var errs []error
	for _, d := range []struct {
		name  string
		value syntax.Duration
	}{{"max", t.Max}, {"extend", t.Extend}, {"failed", t.Failed}} {
		errs = append(errs, syntax.CheckDuration(t.Range, d.name, d.value))
	}
	end := t.Default != "" && t.Default != noEnd
	if end {
		errs = append(errs, syntax.CheckDuration(t.Range, "default", syntax.Duration(t.Default)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out := &lifecycle.TTL{
		Default: syntax.Duration(t.Default).Value(), Max: t.Max.Value(), Extend: t.Extend.Value(), Extends: t.Extends,
		Failed: t.Failed.Value(), OnExpire: cmp.Or(t.OnExpire, "destroy"),
	}
	refused := func(format string, args ...any) error { return syntax.WrongAt(t.Range, fmt.Errorf(format, args...)) }
	switch {
	case !end && *t != (TTL{Default: t.Default, Range: t.Range}):
		return nil, refused("a lifetime without an end has no other attributes")
	case !end:
		return nil, nil
	case out.Default < leastTo:
		return nil, refused("default %s: at least %s", t.Default, leastTo)
	case out.Max != 0 && out.Max < out.Default:
		return nil, refused("max %s is less than default %s", t.Max, t.Default)
	case out.Extends < 0 || (out.Extends == 0) != (out.Extend == 0):
		return nil, refused("extend, by how much, and extends, how often, go together")
	case out.OnExpire != "destroy" && out.OnExpire != "keep":
		return nil, refused("on_expire %q is not destroy or keep", t.OnExpire)
	}
	return out, nil
}

// instanceTemplates checks where templates come from.
func (s *Settings) instanceTemplates(o *instances, _ Env) error {
	if o.templates != "" {
		if info, err := os.Stat(o.templates); err != nil || !info.IsDir() {
			return syntax.WrongAt(s.Instances.Range, fmt.Errorf("templates %q is not a folder", o.templates))
		}
	}
	for _, in := range s.Sources {
		source, err := s.templateSource(in)
		if err != nil {
			return syntax.WrongAt(in.Range, fmt.Errorf("template_source %q: %w", in.Templates, err))
		}
		o.sources = append(o.sources, source)
	}
	return nil
}

func (s *Settings) templateSource(source TemplateSource) (out portal.TemplateSource, err error) {
	out = portal.TemplateSource{Templates: source.Templates, Modules: source.Modules, Credentials: source.Credentials, Max: source.Max}
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
		if !slices.ContainsFunc(s.Credentials, func(c Credential) bool { return c.Name == name }) {
			return out, fmt.Errorf("there is no block credential %q", name)
		}
	}
	if source.Max < 0 {
		return out, fmt.Errorf("max must not be negative: %d", source.Max)
	}
	return out, nil
}

// checkTemplateGlob refuses a glob that no template has.
func checkTemplateGlob(glob string) error {
	if glob != "**" && strings.Count(glob, "/") != 1 {
		return fmt.Errorf("%q is not a glob over NAMESPACE/NAME", glob)
	}
	if namespace, _, _ := strings.Cut(glob, "/"); namespace == addr.TemplateReserved {
		return fmt.Errorf("the namespace %s is taken", namespace)
	}
	return nil
}

// instanceQuotas reads the limits of owners: that of everybody has no name.
func (s *Settings) instanceQuotas(o *instances, _ Env) error {
	if q := s.Instances.Quota; q != nil {
		if q.User < 0 || q.Group < 0 || q.User+q.Group == 0 {
			return syntax.WrongAt(q.Range, errors.New("a quota has user, group or both, each at least 1"))
		}
		o.limits.Quotas = append(o.limits.Quotas, lifecycle.Quota{User: q.User, Group: q.Group})
	}
	for _, q := range s.Quotas {
		refused := func(err error) error { return syntax.WrongAt(q.Range, fmt.Errorf("quota %q: %w", q.Name, err)) }
		if q.User < 0 || q.Group < 0 || q.User+q.Group == 0 {
			return refused(errors.New("it has user, group or both, each at least 1"))
		}
		if slices.ContainsFunc(o.limits.Quotas, func(other lifecycle.Quota) bool { return other.Name == q.Name }) {
			return refused(errors.New("it is there twice"))
		}
		for _, glob := range q.Templates {
			if err := checkTemplateGlob(glob); err != nil {
				return refused(err)
			}
		}
		o.limits.Quotas = append(o.limits.Quotas, lifecycle.Quota{Name: q.Name, Groups: q.Groups, Templates: q.Templates, User: q.User, Group: q.Group})
	}
	return nil
}

// instanceRuns checks what runs tofu, and with what.
func (s *Settings) instanceRuns(o *instances, _ Env) error {
	for i, e := range s.Executors {
		switch {
		case e.Name != localExecutor:
			return syntax.WrongAt(e.Range, fmt.Errorf("executor %q: this server has local only; flux-terraform and flux-helm run on a cluster", e.Name))
		case i > 0:
			return syntax.WrongAt(e.Range, fmt.Errorf("executor %q is there twice", e.Name))
		}
		if err := e.check(); err != nil {
			return syntax.WrongAt(e.Range, fmt.Errorf("executor %q: %w", e.Name, err))
		}
		e.Program, e.Isolation = cmp.Or(e.Program, "tofu"), cmp.Or(e.Isolation, "sandbox")
		o.executor = e
	}
	for i, c := range s.Credentials {
		if slices.ContainsFunc(s.Credentials[:i], func(other Credential) bool { return other.Name == c.Name }) {
			return syntax.WrongAt(c.Range, fmt.Errorf("credential %q is there twice", c.Name))
		}
		if err := c.check(); err != nil {
			return syntax.WrongAt(c.Range, fmt.Errorf("credential %q: %w", c.Name, err))
		}
	}
	return nil
}

func (e Executor) check() error {
	switch {
	case !slices.Contains([]string{"", "sandbox", "user", "wrap", "none"}, e.Isolation):
		return fmt.Errorf("the isolation %q is not sandbox, user, wrap or none", e.Isolation)
	case (e.Isolation == "user") != (len(e.Users) > 0):
		return errors.New(`isolation = "user" and users, one for each run at a time, go together`)
	case e.Processes < 0 || e.CPUs < 0:
		return errors.New("processes and cpus must not be negative")
	case (e.Isolation == "wrap") != (len(e.Wrap) > 0):
		return errors.New(`isolation = "wrap" and the command in wrap go together`)
	}
	if slices.ContainsFunc(e.Wrap, func(w string) bool { return strings.Contains(w, "${cache}") }) {
		return errors.New("wrap: there is no ${cache} any more, since what one run left there another one started\nhint: leave it out; ${scratch} has all that a run needs")
	}
	for name, size := range map[string]syntax.Size{"memory": e.Memory, "scratch": e.Scratch} {
		if size == "" {
			continue
		}
		if _, err := text.ParseSize(string(size)); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
	}
	for _, glob := range e.Reads {
		if strings.Count(glob, "/") != 2 && !strings.Contains(glob, "**") {
			return fmt.Errorf("reads: %q is not a glob over modules, NAMESPACE/NAME/SYSTEM", glob)
		}
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownVariables are those that a run has anyway, or that would be the server's.
func ownVariables(name string) bool {
	return slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG", "CHECKPOINT_DISABLE", "LD_PRELOAD", "LD_LIBRARY_PATH"}, name) ||
		strings.HasPrefix(name, "TF_") || strings.HasPrefix(name, "OKARA_")
}

func (c Credential) check() error {
	if len(c.EnvFrom)+len(c.Files)+len(c.Command) == 0 {
		return errors.New("it gives nothing: env_from, files or command is needed")
	}
	names := slices.Clone(c.EnvFrom)
	for name, file := range c.Files {
		names = append(names, name)
		if !filepath.IsAbs(file) {
			return fmt.Errorf("files: %q is not an absolute path", file)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		switch {
		case !variableName.MatchString(name):
			return fmt.Errorf("%q is not the name of a variable", name)
		case ownVariables(name):
			return fmt.Errorf("the variable %s is not for credentials", name)
		case i > 0 && names[i-1] == name:
			return fmt.Errorf("the variable %s is there twice", name)
		}
	}
	return nil
}

// instancePeers reads how replicas reach each other.
func (s *Settings) instancePeers(o *instances, _ Env) error {
	in := s.Instances
	if in.Advertise != "" {
		u, err := portal.CheckPeer(in.Advertise, in.ForwardPlain)
		if err != nil {
			return syntax.WrongAt(in.Range, fmt.Errorf("advertise: %w", err))
		}
		o.advertise = u
	}
	if o.role == roleRunner && o.advertise == nil {
		return syntax.WrongAt(in.Range, errors.New("a runner answers what others hand on to it, and nothing says where it is reached\nhint: set advertise = \"https://HOST:PORT\""))
	}
	keys, err := s.portalKeys()
	o.portalKeys = keys
	return err
}

// portalKeys are the secrets that portals share with those who lead.
func (s *Settings) portalKeys() ([]access.Key, error) {
	var keys []access.Key
	if s.Instances == nil {
		return nil, nil
	}
	for _, file := range s.Instances.PortalKeys {
		key, err := readArchiveKey(file)
		if err == nil {
			_, err = access.NewKeyring([]access.Key{key})
		}
		if err != nil {
			return nil, syntax.WrongAt(s.Instances.Range, fmt.Errorf("portal_session_key_files: %s: %w", file, err))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// instanceNotices reads who is told.
func (s *Settings) instanceNotices(o *instances, env Env) error {
	if s.Notify == nil {
		return nil
	}
	secret, err := env.Secret("", s.Notify.SecretFile)
	if err != nil {
		return syntax.WrongAt(s.Notify.Range, err)
	}
	u, err := url.Parse(s.Notify.URL)
	if err != nil {
		return syntax.WrongAt(s.Notify.Range, errors.New("notify: url is not the address of a receiver"))
	}
	o.notify = &notify{url: u, secret: []byte(secret)}
	if _, err := portal.NewNotifier(portal.NotifyOptions{URL: u, Secret: o.notify.secret}); err != nil {
		return syntax.WrongAt(s.Notify.Range, err)
	}
	return nil
}
