"""Where ranks live: live processes of this machine (`partkit.worlds.world`), and the notebook magics that drive them."""
