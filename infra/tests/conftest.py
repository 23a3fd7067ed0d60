from hypothesis import settings

settings.register_profile("shared-machine", deadline=None)  # how long an example takes says nothing on a busy one
settings.load_profile("shared-machine")
