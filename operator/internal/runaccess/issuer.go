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
	// Lifetime is how long a token of a run is valid.
	Lifetime = 24 * time.Hour
	// RenewBelow is the remaining lifetime below which a token is renewed.
	RenewBelow = 12 * time.Hour
	// ownLifetime is how long the operator's own tokens are valid, each for one request.
	ownLifetime = 5 * time.Minute
	// back is how far the clock of okara serve may be behind.
	back = time.Minute
)

// audience is the audience of the tokens: okara serve.
const audience = "okara"

// OwnSubject is the subject of the operator's own tokens.
const OwnSubject = "okara-operator"

// IssuerOptions configures an issuer.
type IssuerOptions struct {
	Client    client.Client // reads the current objects, without a cache
	Namespace string        // of the operator, where the keys are
	Cluster   string        // the issuer is okara-operator.CLUSTER
	Now       func() time.Time
}

// Issuer issues tokens. It is safe for concurrent use.
type Issuer struct {
	o       IssuerOptions
	keeping sync.Mutex // held while the keys change

	mu   sync.Mutex // guards the field below
	ring ring
}

// NewIssuer returns an issuer. It makes no request.
func NewIssuer(o IssuerOptions) (*Issuer, error) {
	if wrong := validation.IsDNS1123Label(o.Cluster); len(wrong) > 0 {
		return nil, fmt.Errorf("cluster %q is not a DNS label: it %s", o.Cluster, wrong[0])
	}
	if o.Client == nil || o.Namespace == "" {
		return nil, errors.New("issuer of run tokens: a client and a namespace are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Issuer{o: o}, nil
}

// Name returns the claim iss of the tokens.
func (i *Issuer) Name() string { return "okara-operator." + i.o.Cluster }

// Cluster returns the name of the cluster.
func (i *Issuer) Cluster() string { return i.o.Cluster }

// Subject is the tokens' sub, and the state's owner: run:NAMESPACE/UID.
func (r Run) Subject() string { return Subject(r.Namespace, r.UID) }

// Subject returns [Run.Subject] for the object with a UID in a namespace.
func Subject(namespace string, uid types.UID) string { return "run:" + namespace + "/" + string(uid) }

// workspace matches names that are safe in a right.
var workspace = regexp.MustCompile(`^[a-z0-9]+(?:[.-][a-z0-9]+)*$`)

// check rejects what rules could match too widely.
func (r Run) check() error {
	switch {
	case len(validation.IsDNS1123Label(r.Namespace)) > 0:
		return fmt.Errorf("run token: %q is not a valid namespace name", r.Namespace)
	case r.UID == "" || len(validation.IsDNS1123Subdomain(string(r.UID))) > 0:
		return fmt.Errorf("run token: %q is not a UID", r.UID)
	case len(r.Workspace) > validation.DNS1123SubdomainMaxLength || !workspace.MatchString(r.Workspace):
		return fmt.Errorf("run token: %q is not a valid workspace name", r.Workspace)
	}
	if r.Module != "" {
		if _, err := addr.ParseModule(r.Module); err != nil {
			return fmt.Errorf("run token: %w", err)
		}
	}
	return nil
}

type claims struct {
	jwt.Claims
	Namespace string `json:"namespace"`
	Workspace string `json:"workspace"`
	Module    string `json:"module,omitempty"`
}

// Token issues a token for a run, valid from a minute ago until [Lifetime] from now.
func (i *Issuer) Token(ctx context.Context, r Run) (string, error) {
	if err := r.check(); err != nil {
		return "", err
	}
	return i.sign(ctx, r, r.Subject(), Lifetime)
}

// Own issues a token by which the operator reads and deletes a run's state, whoever owns it.
func (i *Issuer) Own(ctx context.Context, r Run) (string, error) {
	if err := r.check(); err != nil {
		return "", err
	}
	return i.sign(ctx, r, OwnSubject, ownLifetime)
}

func (i *Issuer) sign(ctx context.Context, r Run, subject string, lifetime time.Duration) (string, error) {
	keys, err := i.keyRing(ctx)
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

// Left returns how long a token remains valid for a run, 0 if it is not for this run or its key is
// not published any more. Below [RenewBelow] it has to be renewed.
func (i *Issuer) Left(ctx context.Context, token string, r Run) (time.Duration, error) {
	keys, err := i.keyRing(ctx)
	if err != nil {
		return 0, err
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return 0, nil
	}
	var is claims
	if parsed.Claims(keys.publicKeys(), &is) != nil || is.Expiry == nil {
		return 0, nil
	}
	sameRun := is.Namespace == r.Namespace && is.Workspace == r.Workspace && is.Module == r.Module
	sameAudience := len(is.Audience) == 1 && is.Audience.Contains(audience)
	if is.Issuer != i.Name() || is.Subject != r.Subject() || !sameAudience || !sameRun {
		return 0, nil
	}
	return max(0, is.Expiry.Time().Sub(i.o.Now())), nil
}

// keyRing returns the key ring that this process has cached, which it reads on first use.
func (i *Issuer) keyRing(ctx context.Context) (ring, error) {
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
