// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/addr"
)

const (
	// Lifetime is how long a token of a run is good.
	Lifetime = 24 * time.Hour
	// RenewBelow is how much of it has to be left.
	RenewBelow = 12 * time.Hour
	// ownLifetime is how long the operator's own tokens are good, for one request.
	ownLifetime = 5 * time.Minute
	// back is how far behind the clock of okara serve may be.
	back = time.Minute
)

// audience is okara serve.
const audience = "okara"

// OwnSubject is the subject of tokens that the operator makes for itself.
const OwnSubject = "okara-operator"

// IssuerOptions say for whom tokens are issued.
type IssuerOptions struct {
	Client    client.Client // reads what is there now, not a cache
	Namespace string        // of the operator, which has the keys
	Cluster   string        // the issuer is okara-operator.CLUSTER
	Now       func() time.Time
}

// Issuer makes tokens. It is safe for concurrent use.
type Issuer struct {
	o       IssuerOptions
	keeping sync.Mutex // held by who changes the keys

	mu   sync.Mutex // guards the field below
	ring ring
}

// NewIssuer returns an issuer. It makes no request.
func NewIssuer(o IssuerOptions) (*Issuer, error) {
	if wrong := validation.IsDNS1123Label(o.Cluster); len(wrong) > 0 {
		return nil, fmt.Errorf("cluster %q is no label of DNS: it %s", o.Cluster, wrong[0])
	}
	if o.Client == nil || o.Namespace == "" {
		return nil, errors.New("issuer of run tokens: a client and a namespace are needed")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Issuer{o: o}, nil
}

// Name is what the tokens have as iss.
func (i *Issuer) Name() string { return "okara-operator." + i.o.Cluster }

// Cluster is the name of the cluster.
func (i *Issuer) Cluster() string { return i.o.Cluster }

// Subject is the sub of the tokens, which owns the state: run:NAMESPACE/UID.
func (r Run) Subject() string { return Subject(r.Namespace, r.UID) }

// Subject is [Run.Subject] of the object with a UID in a namespace.
func Subject(namespace string, uid types.UID) string { return "run:" + namespace + "/" + string(uid) }

// workspace is a name that may stand in a right: without a glob and without a way up.
var workspace = regexp.MustCompile(`^[a-z0-9]+(?:[.-][a-z0-9]+)*$`)

// check refuses what rules could take for more than it is, whatever okara serve does
// with it.
func (r Run) check() error {
	switch {
	case len(validation.IsDNS1123Label(r.Namespace)) > 0:
		return fmt.Errorf("run token: %q is no name of a namespace", r.Namespace)
	case r.UID == "" || len(validation.IsDNS1123Subdomain(string(r.UID))) > 0:
		return fmt.Errorf("run token: %q is no UID", r.UID)
	case len(r.Workspace) > validation.DNS1123SubdomainMaxLength || !workspace.MatchString(r.Workspace):
		return fmt.Errorf("run token: %q is no name of a workspace", r.Workspace)
	}
	if r.Module != "" {
		if _, err := addr.ParseModule(r.Module); err != nil {
			return fmt.Errorf("run token: %w", err)
		}
	}
	return nil
}

// claims are what a token says.
type claims struct {
	jwt.Claims
	Namespace string `json:"namespace"`
	Workspace string `json:"workspace"`
	Module    string `json:"module,omitempty"`
}

// Token is for a run: [Lifetime] from now, and a minute before.
func (i *Issuer) Token(ctx context.Context, r Run) (string, error) {
	if err := r.check(); err != nil {
		return "", err
	}
	return i.sign(ctx, r, r.Subject(), Lifetime)
}

// Own is a token by which the operator itself looks at the state of a run, and deletes
// it: its subject is no run, and so owns nothing and is refused nothing.
func (i *Issuer) Own(ctx context.Context, r Run) (string, error) {
	if err := r.check(); err != nil {
		return "", err
	}
	return i.sign(ctx, r, OwnSubject, ownLifetime)
}

func (i *Issuer) sign(ctx context.Context, r Run, subject string, lifetime time.Duration) (string, error) {
	keys, err := i.keys(ctx)
	if err != nil {
		return "", err
	}
	now := i.o.Now()
	k, ok := keys.signer(now)
	if !ok {
		return "", errors.New("run token: no key is published")
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: k}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("run token: %w", err)
	}
	c := claims{
		Claims: jwt.Claims{
			Issuer: i.Name(), Subject: subject, Audience: jwt.Audience{audience},
			NotBefore: jwt.NewNumericDate(now.Add(-back)), IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(lifetime)),
		},
		Namespace: r.Namespace, Workspace: r.Workspace, Module: r.Module,
	}
	return jwt.Signed(s).Claims(c).Serialize()
}

// Left is how long a token is good for a run: 0 if it is not one for this run, or by a
// key that is not published any more. Below [RenewBelow] it is to be made anew.
func (i *Issuer) Left(ctx context.Context, token string, r Run) (time.Duration, error) {
	keys, err := i.keys(ctx)
	if err != nil {
		return 0, err
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return 0, nil
	}
	var is claims
	if parsed.Claims(keys.public(), &is) != nil || is.Expiry == nil {
		return 0, nil
	}
	sameRun := is.Namespace == r.Namespace && is.Workspace == r.Workspace && is.Module == r.Module
	sameAudience := len(is.Audience) == 1 && is.Audience.Contains(audience)
	if is.Issuer != i.Name() || is.Subject != r.Subject() || !sameAudience || !sameRun {
		return 0, nil
	}
	return max(0, is.Expiry.Time().Sub(i.o.Now())), nil
}

// keys are the ring as this process knows it, which it reads at first.
func (i *Issuer) keys(ctx context.Context) (ring, error) {
	i.mu.Lock()
	r := i.ring
	i.mu.Unlock()
	if r != nil {
		return r, nil
	}
	if err := i.Keep(ctx); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ring, nil
}
