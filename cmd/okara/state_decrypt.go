// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

func newStateDecrypt(a *cli.App, f *stateFlags) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "decrypt MANIFEST BLOB",
		Short: "Decrypt a stored state without a registry, from its manifest and its blob",
		Long: `Decrypt and unpack a stored state offline. MANIFEST is the manifest of the version
and BLOB its only layer, as fetched by other tools or stored in a backup of the
registry. The keys are specified as for every other command.`,
		Example: `  oras manifest fetch registry.example.com/state/shop:state-prod > manifest.json
  oras blob fetch registry.example.com/state/shop@sha256:… -o state.blob
  okara state decrypt manifest.json state.blob --identity age.key -o terraform.tfstate`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireOutput(a, output); err != nil {
				return err
			}
			m, err := readManifestFile(args[0])
			if err != nil {
				return err
			}
			stored, err := cli.ReadLimited(args[1], maxState)
			if err != nil {
				return err
			}
			o, err := f.storeOptions(a)
			if err != nil {
				return err
			}
			state, v, err := statebackend.New(nil, o).Decode(cmd.Context(), m, stored)
			if err == nil && v.Empty {
				err = errors.New("this version has no state")
			}
			if err != nil {
				return err
			}
			return writeState(a, output, state, v)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write, with mode 0600")
	return cmd
}

func readManifestFile(path string) (oci.Manifest, error) {
	b, err := cli.ReadLimited(path, oci.MaxManifest)
	if err != nil {
		return oci.Manifest{}, err
	}
	var doc struct {
		MediaType    string `json:"mediaType"`
		ArtifactType string `json:"artifactType"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return oci.Manifest{}, cli.WithHint(fmt.Errorf("%s is not the manifest of a version", path), "fetch it with `oras manifest fetch REPOSITORY:TAG`")
	}
	return oci.Manifest{
		Descriptor: oci.Descriptor{MediaType: doc.MediaType, ArtifactType: doc.ArtifactType, Digest: digest.FromBytes(b), Size: int64(len(b))},
		Bytes:      b,
	}, nil
}
