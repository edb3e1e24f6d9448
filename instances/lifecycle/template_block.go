// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"github.com/hashicorp/hcl/v2"
)

// templateBlock is the body of a template as it is written.
type templateBlock struct {
	Title       string          `hcl:"title,optional"`
	Description string          `hcl:"description,optional"`
	Icon        string          `hcl:"icon,optional"`
	Category    string          `hcl:"category,optional"`
	Enabled     *bool           `hcl:"enabled"`
	Visible     *bool           `hcl:"visible"`
	Module      *moduleBlock    `hcl:"module,block"`
	Chart       *hcl.Attribute  `hcl:"chart"`
	Executor    *string         `hcl:"executor"`
	Owner       *string         `hcl:"owner"`
	Groups      []string        `hcl:"groups,optional"`
	PerOwner    int             `hcl:"per_owner,optional"`
	Max         int             `hcl:"max,optional"`
	Approval    *string         `hcl:"approval"`
	TTL         *ttlBlock       `hcl:"ttl,block"`
	Pool        *poolBlock      `hcl:"pool,block"`
	Parameters  []parameter     `hcl:"parameter,block"`
	Inputs      *hcl.Attribute  `hcl:"inputs"`
	Outputs     []string        `hcl:"outputs,optional"`
	Connection  *connectionPart `hcl:"connection,block"`
	Credentials []string        `hcl:"credentials,optional"`
	Timeout     *string         `hcl:"timeout"`
	Retries     *int            `hcl:"retries"`
	Protection  bool            `hcl:"protection,optional"`
	Drift       *driftBlock     `hcl:"drift,block"`
	Update      *string         `hcl:"update"`
	Notices     []string        `hcl:"notices,optional"`
	Cost        *costBlock      `hcl:"cost,block"`
	Schedule    *scheduleBlock  `hcl:"schedule,block"`
	Body        hcl.Body        `hcl:",body"`
}

type moduleBlock struct {
	Address string   `hcl:"address"`
	Version string   `hcl:"version,optional"`
	Path    string   `hcl:"path,optional"`
	Body    hcl.Body `hcl:",body"`
}

type ttlBlock struct {
	Default  string   `hcl:"default"`
	Max      *string  `hcl:"max"`
	Extend   *string  `hcl:"extend"`
	Extends  *int     `hcl:"extends"`
	Failed   *string  `hcl:"failed"`
	OnExpire *string  `hcl:"on_expire"`
	Body     hcl.Body `hcl:",body"`
}

type poolBlock struct {
	Size      int      `hcl:"size"`
	Max       int      `hcl:"max,optional"`
	MaxAge    *string  `hcl:"max_age"`
	WhenEmpty *string  `hcl:"when_empty"`
	Body      hcl.Body `hcl:",body"`
}

type parameter struct {
	Name    string         `hcl:"name,label"`
	Title   string         `hcl:"title,optional"`
	Help    string         `hcl:"help,optional"`
	Default *hcl.Attribute `hcl:"default"`
	Enum    *hcl.Attribute `hcl:"enum"`
	Pattern string         `hcl:"pattern,optional"`
	Minimum *float64       `hcl:"minimum"`
	Maximum *float64       `hcl:"maximum"`
	Update  bool           `hcl:"update,optional"`
	Link    *bool          `hcl:"link"`
	When    *hcl.Attribute `hcl:"when"`
	Body    hcl.Body       `hcl:",body"`
}

type connectionPart struct {
	Type    *string        `hcl:"type"`
	URL     *hcl.Attribute `hcl:"url"`
	Message *hcl.Attribute `hcl:"message"`
	Body    hcl.Body       `hcl:",body"`
}

type driftBlock struct {
	Every     string   `hcl:"every"`
	Remediate bool     `hcl:"remediate,optional"`
	Body      hcl.Body `hcl:",body"`
}

type costBlock struct {
	Hourly   float64  `hcl:"hourly"`
	Currency string   `hcl:"currency,optional"`
	Body     hcl.Body `hcl:",body"`
}
