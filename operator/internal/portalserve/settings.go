// SPDX-License-Identifier: Apache-2.0

package portalserve

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/instances/settings"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// Settings is the file of the portal. Names and meanings are those of okara serve.
type Settings struct {
	Listen    string    `hcl:"listen,optional"`
	Metrics   string    `hcl:"metrics_listen,optional"`
	Hostname  string    `hcl:"hostname,optional"`
	PublicURL string    `hcl:"public_url,optional"`
	LogFormat string    `hcl:"log_format,optional"`
	Cluster   string    `hcl:"cluster,optional"` // of the operator
	Proxies   []string  `hcl:"proxies,optional"`
	ProxiesAt hcl.Range `hcl:"proxies,attr_value_range"`

	TLS       *tlsBlock        `hcl:"tls,block"`
	UI        *uiBlock         `hcl:"ui,block"`
	Login     *loginBlock      `hcl:"login,block"`
	Instances *instancesBlock  `hcl:"instances,block"`
	Quotas    []settings.Quota `hcl:"quota,block"`

	Access access.Block // rights, a separate part of the file
}

type tlsBlock struct {
	Cert string `hcl:"cert" path:"file"`
	Key  string `hcl:"key" path:"file"`
}

type uiBlock struct {
	SessionTTL syntax.Duration `hcl:"session_ttl,optional"`
	Keys       []string        `hcl:"session_key_files" path:"file"`
	ClientID   string          `hcl:"client_id,optional"`
	SecretFile string          `hcl:"client_secret_file,optional" path:"file"`
	Range      hcl.Range       `hcl:",def_range"`
}

type loginBlock struct {
	Mode      string    `hcl:"mode,optional"` // direct: tools log in at the issuer itself; the only mode here
	Issuer    string    `hcl:"issuer"`
	ClientID  string    `hcl:"client_id"`
	Scopes    []string  `hcl:"scopes,optional"`
	NotBefore string    `hcl:"not_before,optional"`
	Range     hcl.Range `hcl:",def_range"`
}

// instancesBlock is the part of okara serve's block instances that applies to a cluster.
type instancesBlock struct {
	GroupAge     syntax.Duration      `hcl:"group_age,optional"`
	Rate         int                  `hcl:"rate,optional"`
	TTL          *template.Lifetime   `hcl:"ttl,block"`
	Quota        *settings.OwnerQuota `hcl:"quota,block"`
	Connection   *settings.Connection `hcl:"connection,block"`
	Config       map[string]string    `hcl:"config,optional"`
	ApprovalSelf bool                 `hcl:"approval_self,optional"`
	Range        hcl.Range            `hcl:",def_range"`
}

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

func wrongAt(at hcl.Range, format string, args ...any) error {
	return syntax.WrongAt(at, fmt.Errorf(format, args...))
}

// Read reads a file. Errors contain the line.
func Read(file string) (*Settings, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, &syntax.SettingError{Err: err}
	}
	if len(src) > maxFile {
		return nil, &syntax.SettingError{Err: fmt.Errorf("%s is %d bytes, the limit is %d", file, len(src), maxFile)}
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

// Instance holds the settings of the file for all templates and instances.
type Instance struct {
	instancectl.Settings // without namespace and users
	GroupAge             time.Duration
	Rate                 int
}

// Instance returns the settings of the file for all templates and instances.
func (s *Settings) Instance() (Instance, error) {
	blocks := settings.Block{Quotas: s.Quotas}
	if in := s.Instances; in != nil {
		blocks.Instances = &settings.Instances{
			GroupAge: in.GroupAge, Rate: in.Rate, TTL: in.TTL, Quota: in.Quota, Connection: in.Connection, Config: in.Config,
			ApprovalSelf: in.ApprovalSelf, Range: in.Range,
		}
	}
	o, err := blocks.Common()
	if err != nil {
		return Instance{}, err
	}
	common := instancectl.Settings{Defaults: template.Defaults{TTL: o.TTL, Connection: o.Connection}, Config: o.Config, Limits: o.Limits}
	return Instance{common, o.GroupAge, o.Rate}, nil
}
