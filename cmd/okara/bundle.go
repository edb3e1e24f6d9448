// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

const bundleLong = `Transfer modules, providers and their signatures across an air gap in one file.

A bundle is a tar of an OCI image layout, which any OCI tool can read. The same content
produces the same file. Creating and loading can be interrupted at any time; the next
run continues where the last one stopped.`

func newBundle(reg *cli.Registries) *cobra.Command {
	cmd := cli.Parent("bundle", "artifacts", "Transfer artifacts to a registry without a network")
	cmd.Long = bundleLong
	load := newBundleLoad(reg)
	reg.AddDryRun(load)
	cmd.AddCommand(newBundleCreate(reg), newBundleShow(reg.App), newBundleVerify(reg.App), load)
	return cmd
}

func newBundleCreate(reg *cli.Registries) *cobra.Command {
	var since, signKey, passphraseFile string
	var policy policyFlags
	cmd := &cobra.Command{
		Use:   "create FILE ADDRESS[@CONSTRAINT]...",
		Short: "Create a bundle",
		Long: `Write a bundle of modules (net/vpc/aws), own providers (acme/dns) and mirrored
providers (registry.opentofu.org/hashicorp/time). Without a constraint all
versions are included. --sign-key writes the signature FILE.sig over the index of
the bundle, which holds the digests of its content.

` + policyHelp + ` In that case no bundle is written.

Exit codes: 0 written, 1 a version was refused, 2 usage, 3 version not found.`,
		Example: `  okara bundle create week.tar net/vpc/aws 'registry.opentofu.org/hashicorp/time@~> 0.14'
  okara bundle create next.tar net/vpc/aws --since week.tar`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := readPrivateKey(reg.App, signKey, passphraseFile)
			if err != nil {
				return err
			}
			if err := checkOldSignature(args[0], key); err != nil {
				return err
			}
			if err := bundleCreate(cmd.Context(), reg, args[0], args[1:], since, policy); err != nil || key == nil {
				return err
			}
			return bundleSign(reg.App, args[0], key)
		},
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "omit the content of this earlier bundle `FILE`")
	f.StringVar(&signKey, "sign-key", "", "armored OpenPGP private key `FILE` that signs the bundle")
	f.StringVar(&passphraseFile, "passphrase-file", "", "`FILE` with the key's passphrase (or the variable OKARA_KEY_PASSPHRASE)")
	policy.addTo(cmd)
	return cmd
}

// checkOldSignature refuses a bundle without a signature where that of an earlier one lies, which
// would only be noticed where the bundle is loaded.
func checkOldSignature(file string, key *signing.Key) error {
	if _, err := os.Stat(file + ".sig"); key != nil || err != nil {
		return nil
	}
	return cli.WithHint(cli.UsageError("%s.sig is the signature of an earlier bundle", file), "sign this one too, with --sign-key, or remove %s.sig", file)
}

func bundleCreate(ctx context.Context, reg *cli.Registries, file string, addresses []string, since string, policy policyFlags) error {
	o := bundle.CreateOptions{}
	info, err := os.Stat(file)
	if err == nil && info.IsDir() {
		return cli.UsageError("%s is a folder, not a file", file)
	}
	if old, wrong := bundle.Open(file); wrong == nil {
		_ = old.Close() // only read
	} else if errors.Is(wrong, bundle.ErrNone) && info.Size() > 0 {
		return cli.WithHint(&cli.ExitError{Code: cli.ExitConflict, Err: fmt.Errorf("%s exists and is not a bundle", file)}, "name another file, or remove this one first")
	}
	if o.Policy, err = policy.readPolicy(); err != nil {
		return err
	}
	if o.Since, err = bundleDigests(since); err != nil {
		return err
	}
	d, done, err := openDepot(reg)
	if err != nil {
		return err
	}
	defer done()
	var items []bundle.Item
	for _, s := range addresses {
		it, err := bundleItem(ctx, d, s)
		if err != nil {
			return err
		}
		items = append(items, it)
	}
	report, err := bundle.Create(ctx, d, file, items, o)
	done()
	if err != nil {
		return err
	}
	if report.Resumed > 0 {
		reg.Note("resumed an earlier run: %s already written", text.Plural(report.Resumed, "blob"))
	}
	return reg.PrintResult(report, fmt.Sprintf("%s: %s, %s, %s", file, text.Plural(report.Tags, "tag"), text.Plural(report.Blobs, "file"), text.Size(report.Bytes)))
}

func bundleSign(a *cli.App, file string, key *signing.Key) error {
	b, err := bundle.Open(file)
	if err != nil {
		return err
	}
	defer b.Close()
	name, err := b.Sign(key, time.Now())
	if err == nil {
		a.Note("signed with key %s: %s", key.ID(), name)
	}
	return err
}

type bundleSignature struct {
	File    string `json:"file,omitempty"` // "": there is none
	Checked bool   `json:"checked"`
	Key     string `json:"key,omitempty"` // ID of the signing key
}

// openBundle opens a bundle and, if key files are given, checks its signature before it
// uses anything else of the bundle. If a signature is not checked, a note says so.
func openBundle(a *cli.App, file string, keyFiles []string) (*bundle.File, bundleSignature, error) {
	keys, err := readPublicKeys(keyFiles)
	if err != nil {
		return nil, bundleSignature{}, err
	}
	b, err := bundle.Open(file)
	if err != nil {
		return nil, bundleSignature{}, err
	}
	s, err := checkBundle(a, b, keys)
	if err != nil {
		return nil, bundleSignature{}, errors.Join(err, b.Close())
	}
	return b, s, nil
}

func checkBundle(a *cli.App, b *bundle.File, keys []signing.PublicKey) (bundleSignature, error) {
	file, err := b.Signed()
	switch {
	case err != nil:
		return bundleSignature{}, err
	case len(keys) == 0 && file != "":
		a.Note("warning: signature %s was not verified: specify the trusted keys with --bundle-key", file)
		return bundleSignature{File: file}, nil
	case len(keys) == 0:
		return bundleSignature{}, nil
	}
	key, err := b.VerifySignature(keys)
	if err != nil {
		return bundleSignature{}, err
	}
	a.Note("signed by key %s %s", key.ID, key.UserID)
	return bundleSignature{File: file, Checked: true, Key: key.ID}, nil
}

func bundleDigests(file string) (map[digest.Digest]bool, error) {
	if file == "" {
		return nil, nil
	}
	b, err := bundle.Open(file)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return b.Digests(), nil
}

func bundleItem(ctx context.Context, d *depot.Depot, s string) (bundle.Item, error) {
	it, err := addr.ParseSelection(s)
	if err != nil {
		return bundle.Item{}, err
	}
	selected, err := bundle.Select(ctx, d, it)
	isVersion := func(tag string) bool { _, ok := addr.VersionFromTag(tag); return ok }
	if err == nil && !slices.ContainsFunc(selected.Tags, isVersion) {
		err = fmt.Errorf("%s: no version of %s matches: %w", s, selected.Repo, oci.ErrNotFound)
	}
	return selected, err
}

type bundleVerified struct {
	bundle.Report
	Signature bundleSignature `json:"signature"`
}

func newBundleVerify(a *cli.App) *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a bundle without a registry",
		Long: `Check that every blob of a bundle matches its digest, and that everything its tags refer
to is in it or in the bundle it builds on. With --bundle-key, the signature FILE.sig must exist
and be made by one of the keys; without it, an existing signature is not verified, and a
warning is printed. The signatures of the versions are verified by okara bundle load.

Exit codes: 0 intact, 1 not intact or not signed by a key of --bundle-key, 2 usage.`,
		Example: "  okara bundle verify week.tar --bundle-key release.pub.asc",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, signature, err := openBundle(a, args[0], keys)
			if err != nil {
				return err
			}
			defer b.Close()
			report, err := b.Verify(cmd.Context())
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return a.PrintResult(bundleVerified{report, signature}, fmt.Sprintf("%s: %s, %s, %s: intact", args[0], text.Plural(report.Tags, "tag"), text.Plural(report.Blobs, "file"), text.Size(report.Bytes)))
		},
	}
	bundleKeys(a, cmd, &keys)
	return cmd
}

func bundleKeys(a *cli.App, cmd *cobra.Command, keys *[]string) {
	cmd.Flags().StringArrayVar(keys, "bundle-key", nil, "armored OpenPGP public key `FILE` that must have signed the bundle (repeatable)")
	a.KeepOldName(cmd.Flags(), "bundle-key", "key")
}

func newBundleLoad(reg *cli.Registries) *cobra.Command {
	var keys []string
	var status, images bool
	var policy policyFlags
	cmd := &cobra.Command{
		Use:   "load FILE",
		Short: "Push a bundle to the registry",
		Long: `Push what the registry does not have yet, version tags last. A version that exists with
different content, or whose number was withdrawn, stays unchanged and is reported with
exit code 4. With --bundle-key, nothing is pushed unless FILE.sig is a signature by one of the
keys.

Only modules and providers under the prefix are written, with their signatures, status
and reports. Without --bundle-key a bundle changes only the versions that it adds, and can
withdraw numbers that were never used: a yank, a deprecation or a scan report of a
version that the registry already has is refused, unless --force is given.

--images loads container images too, such as those of okara built by make image: they go
to images/NAME under the prefix, under unused tags. No policy applies to
them.

` + policyHelp + ` It is not tagged, and the others
are loaded.

Exit codes: 0 loaded, 1 something was refused, 2 usage, 3 content is missing, for
example because an earlier bundle was not loaded, 4 a version exists with different
content, or was withdrawn, 5 denied.`,
		Example: "  okara bundle load week.tar --bundle-key release.pub.asc --registry registry.example.com/platform",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bundleLoad(cmd.Context(), reg, args[0], keys, bundle.LoadOptions{Trusted: status || len(keys) > 0, Images: images}, policy)
		},
	}
	bundleKeys(reg.App, cmd, &keys)
	cmd.Flags().BoolVar(&status, "force", false, "also load status and reports of existing versions without --bundle-key")
	cmd.Flags().BoolVar(&images, "images", false, "also load container images")
	policy.addTo(cmd)
	return cmd
}

func bundleLoad(ctx context.Context, reg *cli.Registries, file string, keys []string, o bundle.LoadOptions, flags policyFlags) error {
	var err error
	if o.Policy, err = flags.readPolicy(); err != nil {
		return err
	}
	d, done, err := openDepot(reg)
	if err != nil {
		return err
	}
	defer done()
	b, _, err := openBundle(reg.App, file, keys)
	if err != nil {
		return err
	}
	defer b.Close()
	report, err := bundle.Load(ctx, d, b, o)
	if errors.Is(err, bundle.ErrImage) {
		return cli.WithHint(err, "use --images to load container images too")
	}
	if errors.Is(err, oci.ErrNotFound) {
		return cli.WithHint(err, "the bundle may depend on an earlier one: load all of them, in order")
	}
	if err != nil {
		return err
	}
	done()
	for _, w := range report.Warnings {
		reg.Note("warning: %s", w)
	}
	summary := fmt.Sprintf("%s: %s, %s pushed", file, text.Plural(report.Tags, "tag"), text.Plural(report.Pushed, "blob"))
	if err := reg.PrintResult(report, summary); err != nil {
		return err
	}
	if n := len(report.Refused); n > 0 {
		return fmt.Errorf("%s refused: %w\n%s", text.Plural(n, "entry"), trust.ErrUntrusted, strings.Join(append(report.Refused, report.Conflict...), "\n"))
	}
	if len(report.Conflict) == 0 {
		return nil
	}
	err = fmt.Errorf("not loaded: %s: %w", text.Plural(len(report.Conflict), "version"), oci.ErrExists)
	return cli.WithHint(errors.Join(err, errors.New(strings.Join(report.Conflict, "\n"))),
		"published versions never change, and numbers are not reused: publish the content of the bundle as another version")
}
