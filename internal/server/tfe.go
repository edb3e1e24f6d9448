// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// TFEOptions are what is set of tfe.v2, which `cloud` and backend "remote" speak.
type TFEOptions struct {
	Interval time.Duration // between the states that the tools store while they apply; 0: one at the end
	Memory   int64         // of all states that are being stored, in bytes
	Local    bool          // only this machine reaches the listener
	// Organizations are those of the configuration, and the fresh ones among them
	// store new workspaces apart.
	Organizations, Fresh []string
	// Remote are those whose new workspaces have the execution mode remote.
	Remote []string

	RunTime time.Duration // of a plan, and of an apply, where they run here
}

// options says how tfe.v2 is served on an address; nil: not at all.
func (c *Cloud) options(listen string) *TFEOptions {
	if !c.TFE.on() {
		return nil
	}
	o := &TFEOptions{Interval: c.TFE.Interval.Value(), Memory: c.TFE.Memory.Value(), RunTime: c.TFE.RunTimeout.Value()}
	if host, _, err := net.SplitHostPort(listen); err == nil {
		o.Local = netaddr.IsLoopback(host)
	}
	for _, org := range c.Organizations {
		o.Organizations = append(o.Organizations, org.Name)
		if org.Split != nil && *org.Split {
			o.Fresh = append(o.Fresh, org.Name)
		}
		if org.Mode == modeRemote {
			o.Remote = append(o.Remote, org.Name)
		}
	}
	return o
}

// clouds answers what tfe.v2 asks of the server that it is a part of: who may do what,
// what there is, and where it is.
type clouds struct {
	o     *Options // with TFE
	guard *access.Guard
}

// newTFE returns what is under /api/v2/; nil: nothing is.
func (f *Front) newTFE() (http.Handler, error) {
	o := f.o.TFE
	if o == nil || f.o.Alone {
		return nil, nil
	}
	c := &clouds{&f.o, f.kit.Guard}
	own, err := tfe.New(tfe.Options{
		Kit: f.kit, Keys: f.keys, Open: f.o.Stores, Allow: c.allow, Right: c.right, Organizations: c.organizations, Wrote: c.wrote,
		Split: func(organization string) (reserved, fresh bool) {
			return slices.Contains(f.o.Layout.Split, organization), slices.Contains(o.Fresh, organization)
		},
		PublicURL: c.publicURL, SnapshotInterval: o.Interval, MaxState: min(o.Memory, maxTFEState), Memory: o.Memory, Now: f.o.Now,
		Runs: f.mounted.Runs, RunTime: o.RunTime, Mode: func(organization string) string {
			if slices.Contains(o.Remote, organization) {
				return modeRemote
			}
			return ""
		},
	})
	if err != nil || f.mounted.Forward == nil {
		return own, err
	}
	return f.mounted.Forward(own), nil
}

// maxTFEState bounds a state that comes by tfe.v2, as one by /state/ is.
const maxTFEState = 512 << 20

// tfeService announces tfe.v2, by each name that the tools ask for: `cloud` for
// tfe.v2, backend "remote" for tfe.v2.1, without which OpenTofu 1.12.6 crashes, and for
// state.v2 where it is told to run by itself.
func (f *Front) tfeService(_ context.Context, base string) (map[string]any, error) {
	if f.tfe == nil {
		return nil, nil
	}
	at := base + "/api/v2/"
	return map[string]any{"tfe.v2": at, "tfe.v2.1": at, "state.v2": at}, nil
}

// right is the right to a workspace of an organization, to anything of one
// if none is named.
func (c *clouds) right(action access.Action, organization, workspace string) access.Right {
	if workspace == "" {
		return access.AnyStateRight(c.o.Layout, action, organization)
	}
	return access.StateRight(c.o.Layout, action, organization, workspace)
}

// allow decides about a request. What is about no organization is for
// everybody with any right, but to run: then the body says where, and its right is
// asked for when that was read.
func (c *clouds) allow(r *http.Request, action access.Action, organization, workspace string) (access.Grant, error) {
	if organization != "" {
		return c.guard.Allow(r, c.right(action, organization, workspace))
	}
	if action == access.Run {
		return c.guard.Allow(r, access.Right{Action: access.Run, Kind: addr.KindState, Address: access.Somewhere})
	}
	if err := c.guard.AllowLogin(r); err != nil {
		return access.Grant{}, err
	}
	return c.guard.Allow(r, access.Right{Action: access.List, Kind: access.AnyKind})
}

// organizations are those that a caller may know of: of which he may read something.
func (c *clouds) organizations(ctx context.Context, g access.Grant) ([]string, error) {
	var all []string
	for _, name := range c.o.TFE.Organizations {
		if g.May(c.right(access.Read, name, "")) {
			all = append(all, name)
		}
	}
	if c.o.States == nil {
		return all, nil
	}
	found, err := c.o.States.Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range found {
		organization := name
		may := g.May(access.StateRight(c.o.Layout, access.Read, name, ""))
		if of, _, split := c.o.Layout.SplitState(name); split {
			organization, may = of, g.May(access.StateRight(c.o.Layout, access.Read, name, "default"))
		} else if !may && g.May(c.right(access.Read, name, "")) {
			if may, err = c.readsSome(ctx, g, name); err != nil {
				return nil, err
			}
		}
		if may && !slices.Contains(all, organization) {
			all = append(all, organization)
		}
	}
	slices.Sort(all)
	return all, nil
}

// readsSome reports whether there is a workspace of a state that a caller may read.
func (c *clouds) readsSome(ctx context.Context, g access.Grant, name string) (bool, error) {
	sum, err := c.o.States.Summary(ctx, name)
	if err != nil {
		return false, err
	}
	for _, h := range sum.Heads {
		if g.May(c.right(access.Read, name, h.Workspace)) {
			return true, nil
		}
	}
	return false, nil
}

// wrote hears that a state was stored, by the name of the state that has it.
func (c *clouds) wrote(ctx context.Context, name string) {
	if c.o.States != nil {
		c.o.States.Wrote(ctx, name)
	}
}

// publicURL is how the client of a request reaches this server, without a slash at
// the end; "" if that is not known, and plain http would send a state in clear over a
// network. The answer is for this client alone, so its own word for the host will do.
func (c *clouds) publicURL(r *http.Request) string {
	if c.o.PublicURL != "" {
		return strings.TrimSuffix(c.o.PublicURL, "/")
	}
	scheme := c.guard.Scheme(r)
	if scheme == "" && c.o.TFE.Local {
		scheme = "http"
	}
	at := url.URL{Scheme: scheme, Host: r.Host, Path: strings.TrimSuffix(c.o.BasePath, "/")}
	if u, err := url.Parse(at.String()); scheme == "" || err != nil || u.Host != r.Host || u.Host == "" || u.User != nil {
		return ""
	}
	return at.String()
}
