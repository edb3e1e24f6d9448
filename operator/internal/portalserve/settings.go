// SPDX-License-Identifier: Apache-2.0

package portalserve

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// Settings are the file of the portal. Names and meanings are those of okara serve.
type Settings struct {
	Listen    string    `hcl:"listen,optional"`
	Metrics   string    `hcl:"metrics_listen,optional"`
	Hostname  string    `hcl:"hostname,optional"`
	PublicURL string    `hcl:"public_url,optional"`
	LogFormat string    `hcl:"log_format,optional"`
	Cluster   string    `hcl:"cluster,optional"` // of the operator
	Proxies   []string  `hcl:"proxies,optional"`
	ProxiesAt hcl.Range `hcl:"proxies,attr_value_range"`

	TLS       *tlsBlock       `hcl:"tls,block"`
	UI        *uiBlock        `hcl:"ui,block"`
	Login     *loginBlock     `hcl:"login,block"`
	Instances *instancesBlock `hcl:"instances,block"`
	Quotas    []quotaBlock    `hcl:"quota,block"`

	Access access.Block // who may do what, a part of its own of the file
}

type tlsBlock struct {
	Cert string `hcl:"cert"`
	Key  string `hcl:"key"`
}

type uiBlock struct {
	SessionTTL string    `hcl:"session_ttl,optional"`
	Keys       []string  `hcl:"session_key_files"`
	ClientID   string    `hcl:"client_id,optional"`
	SecretFile string    `hcl:"client_secret_file,optional"`
	Range      hcl.Range `hcl:",def_range"`
}

type loginBlock struct {
	Mode      string    `hcl:"mode,optional"` // direct: the tools log in at the issuer itself; there is no other here
	Issuer    string    `hcl:"issuer"`
	ClientID  string    `hcl:"client_id"`
	Scopes    []string  `hcl:"scopes,optional"`
	NotBefore string    `hcl:"not_before,optional"`
	Range     hcl.Range `hcl:",def_range"`
}

type instancesBlock struct {
	GroupAge     string            `hcl:"group_age,optional"`
	Rate         int               `hcl:"rate,optional"`
	TTL          *ttlBlock         `hcl:"ttl,block"`
	Quota        *ownerQuota       `hcl:"quota,block"`
	Connection   *connectionBlock  `hcl:"connection,block"`
	Config       map[string]string `hcl:"config,optional"`
	ApprovalSelf bool              `hcl:"approval_self,optional"`
	Range        hcl.Range         `hcl:",def_range"`
}

type ttlBlock struct {
	Default  string    `hcl:"default"`
	Max      string    `hcl:"max,optional"`
	Extend   string    `hcl:"extend,optional"`
	Extends  int       `hcl:"extends,optional"`
	Failed   string    `hcl:"failed,optional"`
	OnExpire string    `hcl:"on_expire,optional"`
	Range    hcl.Range `hcl:",def_range"`
}

type ownerQuota struct {
	User  int       `hcl:"user,optional"`
	Group int       `hcl:"group,optional"`
	Range hcl.Range `hcl:",def_range"`
}

type connectionBlock struct {
	Type    string    `hcl:"type"`
	URL     string    `hcl:"url,optional"`
	Message string    `hcl:"message,optional"`
	Range   hcl.Range `hcl:",def_range"`
}

type quotaBlock struct {
	Name      string    `hcl:"name,label"`
	Groups    []string  `hcl:"groups,optional"`
	User      int       `hcl:"user,optional"`
	Group     int       `hcl:"group,optional"`
	Templates []string  `hcl:"templates,optional"`
	Range     hcl.Range `hcl:",def_range"`
}

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

func wrong(at hcl.Range, format string, args ...any) error {
	return syntax.WrongAt(at, fmt.Errorf(format, args...))
}

// Read reads a file. Errors name its line.
func Read(file string) (*Settings, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, &syntax.SettingError{Err: err}
	}
	if len(src) > maxFile {
		return nil, &syntax.SettingError{Err: fmt.Errorf("%s has %d bytes, at most %d", file, len(src), maxFile)}
	}
	return Parse(src, file)
}

// Parse reads the text of a file.
func Parse(src []byte, file string) (*Settings, error) {
	var s Settings
	if err := syntax.Wrong(syntax.DecodeParts(src, file, &s, &s.Access)); err != nil {
		return nil, err
	}
	s.Listen = cmp.Or(s.Listen, "127.0.0.1:8080")
	_, err := s.Instance()
	return &s, err
}

// Instance is what the file says of all templates.
type Instance struct {
	Defaults lifecycle.Defaults
	Config   map[string]string
	Limits   lifecycle.Limits
	GroupAge time.Duration
	Rate     int
}

var configName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// Instance is what the file says of all templates and instances.
func (s *Settings) Instance() (Instance, error) {
	var out Instance
	in := s.Instances
	if in == nil {
		in = &instancesBlock{}
	}
	for name := range in.Config {
		if !configName.MatchString(name) {
			return out, wrong(in.Range, "config: %q is not a name that templates can write", name)
		}
	}
	out.Config, out.Rate, out.Limits.ApprovalSelf = in.Config, in.Rate, in.ApprovalSelf
	var err error
	if out.GroupAge, err = length(in.Range, "group_age", in.GroupAge); err != nil {
		return out, err
	}
	if out.Defaults.TTL, err = in.TTL.read(); err != nil {
		return out, err
	}
	if c := in.Connection; c != nil {
		if c.Type == lifecycle.ConnectionWeb && c.URL == "" || c.Type != lifecycle.ConnectionWeb && (c.Type != lifecycle.ConnectionInstructions || c.URL != "" || c.Message == "") {
			return out, wrong(c.Range, "a connection is of type web, with a url, or instructions, with a message")
		}
		out.Defaults.Connection = &lifecycle.Connection{Type: c.Type, URL: c.URL, Message: c.Message}
	}
	return out, s.quotas(in, &out)
}

func (s *Settings) quotas(in *instancesBlock, out *Instance) error {
	if q := in.Quota; q != nil {
		if q.User < 0 || q.Group < 0 || q.User+q.Group == 0 {
			return wrong(q.Range, "a quota has user, group or both, each at least 1")
		}
		out.Limits.Quotas = append(out.Limits.Quotas, lifecycle.Quota{User: q.User, Group: q.Group})
	}
	for _, q := range s.Quotas {
		if q.User < 0 || q.Group < 0 || q.User+q.Group == 0 {
			return wrong(q.Range, "quota %q has user, group or both, each at least 1", q.Name)
		}
		out.Limits.Quotas = append(out.Limits.Quotas, lifecycle.Quota{Name: q.Name, Groups: q.Groups, Templates: q.Templates, User: q.User, Group: q.Group})
	}
	return nil
}

// read is a lifetime; nil: none.
func (t *ttlBlock) read() (*lifecycle.TTL, error) {
	if t == nil || t.Default == "none" {
		return nil, nil
	}
	out := &lifecycle.TTL{Extends: t.Extends, OnExpire: cmp.Or(t.OnExpire, lifecycle.ExpireDestroy)}
	for _, part := range []struct {
		name, text string
		to         *time.Duration
	}{{"default", t.Default, &out.Default}, {"max", t.Max, &out.Max}, {"extend", t.Extend, &out.Extend}, {"failed", t.Failed, &out.Failed}} {
		var err error
		if *part.to, err = length(t.Range, part.name, part.text); err != nil {
			return nil, err
		}
	}
	switch {
	case out.Default < 10*time.Minute:
		return nil, wrong(t.Range, "default %s: at least 10m", t.Default)
	case out.Max != 0 && out.Max < out.Default:
		return nil, wrong(t.Range, "max %s is less than default %s", t.Max, t.Default)
	case out.OnExpire != lifecycle.ExpireDestroy && out.OnExpire != lifecycle.ExpireKeep:
		return nil, wrong(t.Range, "on_expire %q is not destroy or keep", t.OnExpire)
	}
	return out, nil
}

// length is a duration; 0 for "".
func length(at hcl.Range, name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, wrong(at, "%s %q is not a duration such as \"4h\" or \"30s\"", name, text)
	}
	return d, nil
}
